package memory

// EngineBytes has the sizes that a running engine reports, or the sums of several. The zero value
// means that none runs.
type EngineBytes struct {
	// Memory that was written: KVUsed by running requests, KVCached by earlier ones.
	Weights, KVUsed, KVCached, State, Scratch int64

	// Reserved is what the engine is promised beyond that, and has never written: the rest of the
	// longest conversation that runs, or of a short one at rest. It is not resident. Other apps can
	// use it until then, but no other model gets it.
	Reserved int64
}

// Used returns the memory that was written.
func (e EngineBytes) Used() int64 {
	return e.Weights + e.KVUsed + e.KVCached + e.State + e.Scratch
}

// Total returns the memory that no other model gets: Used and Reserved.
func (e EngineBytes) Total() int64 { return e.Used() + e.Reserved }

// Add returns the sizes of two engines together.
func (e EngineBytes) Add(o EngineBytes) EngineBytes {
	return EngineBytes{Weights: e.Weights + o.Weights, KVUsed: e.KVUsed + o.KVUsed,
		KVCached: e.KVCached + o.KVCached, State: e.State + o.State, Scratch: e.Scratch + o.Scratch,
		Reserved: e.Reserved + o.Reserved}
}

// Split returns the ledger of a reading: the engines' figures, the rest of Headroom's processes,
// the free memory, and the remainder, which belongs to other programs. The figures were measured at
// different moments. If their sum exceeds the total, later segments of the bar are cut.
func Split(r Reading, engine EngineBytes) Ledger {
	// The difference may be too small: unused parts of scratch are not resident either.
	own := max(r.ProcessBytes-engine.Used(), r.RuntimeBytes)
	segments := []Segment{
		{Weights, engine.Weights, Measured},
		{KVUsed, engine.KVUsed, Measured},
		{KVCached, engine.KVCached, Measured},
		{State, engine.State, Measured},
		{Scratch, engine.Scratch, Measured},
		{Reserved, engine.Reserved, Measured},
		{Headroom, own, Estimated},
		{Other, 0, Estimated},
		{Free, r.FreeBytes(engine), Reported},
	}
	const other = 7 // the index of Other
	left := r.TotalBytes
	for i := range segments {
		segments[i].Bytes = min(max(segments[i].Bytes, 0), left)
		left -= segments[i].Bytes
	}
	segments[other].Bytes = left
	return Ledger{
		TotalBytes:      r.TotalBytes,
		AvailableBytes:  r.AvailableBytes,
		HeadroomBytes:   r.HeadroomBytes(engine, EngineBytes{}),
		WiredLimitBytes: r.WiredLimitBytes,
		Segments:        segments,
	}
}

// Planned returns a ledger as it would be with one model of the given sizes loaded in place of all
// others. Its total is larger than the machine's if the model does not fit.
func Planned(l Ledger, model EngineBytes) Ledger {
	planned := map[Kind]int64{Weights: model.Weights, KVUsed: model.KVUsed, State: model.State,
		Scratch: model.Scratch}
	taken := model.Used()
	for _, s := range l.Segments {
		if s.Kind == Headroom || s.Kind == Other {
			planned[s.Kind] = s.Bytes
			taken += s.Bytes
		}
	}
	planned[Free] = max(l.TotalBytes-taken, 0)
	p := l
	p.TotalBytes, p.Segments = max(l.TotalBytes, taken), make([]Segment, len(l.Segments))
	for i, s := range l.Segments {
		p.Segments[i] = Segment{s.Kind, planned[s.Kind], Estimated}
	}
	return p
}

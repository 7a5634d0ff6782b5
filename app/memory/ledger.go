package memory

// EngineBytes has the sizes that a running engine reports, or the sums of several. The zero value
// means that none runs.
type EngineBytes struct {
	Weights, KVUsed, KVCached, State, Scratch int64

	// Untouched is the part of KVCached that was reserved but never written. It is not resident.
	Untouched int64
}

// Total returns the sum of all sizes. Untouched is already part of KVCached.
func (e EngineBytes) Total() int64 {
	return e.Weights + e.KVUsed + e.KVCached + e.State + e.Scratch
}

// Add returns the sizes of two engines together.
func (e EngineBytes) Add(o EngineBytes) EngineBytes {
	return EngineBytes{Weights: e.Weights + o.Weights, KVUsed: e.KVUsed + o.KVUsed,
		KVCached: e.KVCached + o.KVCached, State: e.State + o.State, Scratch: e.Scratch + o.Scratch,
		Untouched: e.Untouched + o.Untouched}
}

// Split returns the ledger of a reading: the engines' figures, the rest of Headroom's processes,
// the free memory, and the remainder, which belongs to other programs. The figures were measured at
// different moments. If their sum exceeds the total, later segments of the bar are cut.
func Split(r Reading, engine EngineBytes) Ledger {
	// The difference may be too small: unused parts of states and scratch are not resident either.
	own := max(r.ProcessBytes-(engine.Total()-engine.Untouched), r.RuntimeBytes)
	free := r.FreeBytes(engine)
	segments := []Segment{
		{Weights, engine.Weights, Measured},
		{KVUsed, engine.KVUsed, Measured},
		{KVCached, engine.KVCached, Measured},
		{State, engine.State, Measured},
		{Scratch, engine.Scratch, Measured},
		{Headroom, own, Estimated},
		{Other, 0, Estimated},
		{Free, free, Reported},
	}
	const cached, other = 2, 6 // the indices of KVCached and Other
	left := r.TotalBytes
	for i := range segments {
		segments[i].Bytes = min(max(segments[i].Bytes, 0), left)
		left -= segments[i].Bytes
	}
	segments[other].Bytes = left
	return Ledger{
		TotalBytes:      r.TotalBytes,
		AvailableBytes:  r.AvailableBytes,
		HeadroomBytes:   r.HeadroomBytes(engine),
		WiredLimitBytes: r.WiredLimitBytes,
		UntouchedBytes:  min(engine.Untouched, segments[cached].Bytes),
		Segments:        segments,
	}
}

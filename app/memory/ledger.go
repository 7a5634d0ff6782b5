package memory

// EngineBytes is what a running engine says it holds; the zero value means that none runs.
type EngineBytes struct {
	Weights, KVUsed, KVKept, State, Scratch int64

	// Untouched is how much of KVKept no sequence has written yet: reserved, but not resident.
	Untouched int64
}

// Total is the sum.
func (e EngineBytes) Total() int64 { return e.Weights + e.KVUsed + e.KVKept + e.State + e.Scratch }

// Split accounts for all of the reading: the engine's figures, what else is resident in this
// process, what is free, and the rest, which belongs to others. Where sums exceed the total
// (figures of different moments), the later in the bar give way.
func Split(r Reading, engine EngineBytes) Ledger {
	// What of states and scratch has not been used yet is not resident either, so the difference
	// may be too small.
	own := max(r.ProcessBytes-(engine.Total()-engine.Untouched), r.RuntimeBytes)
	free := r.freeBytes(engine)
	segments := []Segment{
		{Weights, engine.Weights, Measured},
		{KVUsed, engine.KVUsed, Measured},
		{KVKept, engine.KVKept, Measured},
		{State, engine.State, Measured},
		{Scratch, engine.Scratch, Measured},
		{Headroom, own, Estimated},
		{Other, 0, Estimated},
		{Free, free, Reported},
	}
	const kept, rest = 2, 6 // KVKept, Other
	left := r.TotalBytes
	for i := range segments {
		segments[i].Bytes = min(max(segments[i].Bytes, 0), left)
		left -= segments[i].Bytes
	}
	segments[rest].Bytes = left
	return Ledger{
		TotalBytes:      r.TotalBytes,
		AvailableBytes:  r.AvailableBytes,
		HeadroomBytes:   r.HeadroomBytes(engine),
		WiredLimitBytes: r.WiredLimitBytes,
		UntouchedBytes:  min(engine.Untouched, segments[kept].Bytes),
		Segments:        segments,
	}
}

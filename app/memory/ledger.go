package memory

// EngineBytes is what a running engine says it holds; the zero value means that none runs.
type EngineBytes struct {
	Weights, KVUsed, KVKept, State, Scratch int64
}

// Total is the sum.
func (e EngineBytes) Total() int64 { return e.Weights + e.KVUsed + e.KVKept + e.State + e.Scratch }

// Split accounts for all of the reading. The engine's figures are taken first, then what else is resident in this process,
// then what is free; the rest belongs to others.
//
// The engine's weights may be mapped files: then they are resident here and available to others at once, and would count
// twice. What AvailableBytes has of our own pages is therefore taken off what is free. Where sums still exceed the total
// (weights that are mapped but not yet read, figures of different moments), free gives way first, then the largest part.
func Split(r Reading, engine EngineBytes) Ledger {
	own := max(r.ProcessBytes-engine.Total(), 0)
	free := max(r.AvailableBytes-r.ProcessFileBytes, 0)
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
	const rest = 6 // Other
	left := r.TotalBytes
	for i := range segments {
		segments[i].Bytes = min(max(segments[i].Bytes, 0), left)
		left -= segments[i].Bytes
	}
	segments[rest].Bytes = left
	return Ledger{
		TotalBytes:      r.TotalBytes,
		AvailableBytes:  r.AvailableBytes,
		HeadroomBytes:   r.HeadroomBytes(),
		WiredLimitBytes: r.WiredLimitBytes,
		Segments:        segments,
	}
}

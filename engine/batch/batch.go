// Package batch defines the input of one forward pass: the prefill chunks and decode rows of
// several sequences, in one list of rows.
package batch

import "headroom/kernels"

// Batch holds M tokens, one per row. Each sequence has a span of rows [Span.Row,
// Span.Row+Span.Rows) with tokens at consecutive positions. Every row belongs to exactly one span.
type Batch struct {
	Tokens kernels.Tensor // I32 [M, 1]
	Spans  []kernels.Span // in row order
	// Rounds lists the same rows again, for recurrent layers, which process a sequence in order. If
	// a state must be kept inside a span, the span is split there, and its pieces are in
	// consecutive rounds. If no span is split, there is one round with all Spans.
	Rounds []Round
}

// Round holds spans of different sequences, and the states to keep after these spans.
type Round struct {
	Spans []kernels.Span
	Keeps []Keep
}

// Keep tells recurrent layers to copy the state in slot From to slot To.
type Keep struct{ From, To int32 }

// Rows returns M.
func (b *Batch) Rows() int { return b.Tokens.Rows }

// Package batch defines the input of one forward pass: the prefill chunks and decode rows of
// several sequences in one flat list.
package batch

import "headroom/kernels"

// Batch holds M tokens in spans, one span per sequence: rows [Span.Row, Span.Row+Span.Rows) are its
// tokens at consecutive positions. Every row belongs to a span.
type Batch struct {
	Tokens kernels.Tensor // I32 [M, 1]
	Spans  []kernels.Span // in row order
	Logits []int32        // rows whose next-token logits are wanted, in order
	// Rounds are the same rows for recurrent layers, which process a sequence in order. If a state
	// must be kept inside a span, the span is split there, and its pieces are in consecutive
	// rounds. If no span is split, there is one round with all Spans.
	Rounds []Round
}

// Round holds spans of different sequences and the states to keep after them.
type Round struct {
	Spans []kernels.Span
	Keeps []Keep
}

// Keep is a state to be copied from slot From to slot To.
type Keep struct{ From, To int32 }

// Rows returns M.
func (b *Batch) Rows() int { return b.Tokens.Rows }

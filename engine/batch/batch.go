// Package batch is the input of one forward pass: prefill chunks and decode rows of several
// sequences, flattened.
package batch

import "headroom/kernels"

// Batch holds M tokens in spans, one span per sequence: rows [Span.Row, Span.Row+Span.Rows) are its
// tokens at consecutive positions. Every row belongs to a span.
type Batch struct {
	Tokens kernels.Tensor // I32 [M, 1]
	Spans  []kernels.Span // in row order
	Logits []int32        // rows whose next-token logits are wanted, in order
	// Rounds are the same rows for layers with recurrent state, which pass through a sequence in
	// order: a span inside which a state is to be kept is cut there, and its pieces lie in
	// consecutive rounds. Without such a span there is one round, of Spans.
	Rounds []Round
}

// Round is spans of different sequences, and what to keep of their states behind them.
type Round struct {
	Spans []kernels.Span
	Keeps []Keep
}

// Keep is a state to be copied from one slot to another.
type Keep struct{ From, To int32 }

// Rows is M.
func (b *Batch) Rows() int { return b.Tokens.Rows }

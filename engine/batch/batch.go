// Package batch is the input of one forward pass: prefill chunks and decode rows of several sequences, flattened.
package batch

import "headroom/kernels"

// Batch holds M tokens in spans, one span per sequence: rows [Span.Row, Span.Row+Span.Rows) are its tokens at consecutive
// positions. Every row belongs to a span.
type Batch struct {
	Tokens kernels.Tensor // I32 [M, 1]
	Spans  []kernels.Span // in row order
	Logits []int32        // rows whose next-token logits are wanted, in order
}

// Rows is M.
func (b *Batch) Rows() int { return b.Tokens.Rows }

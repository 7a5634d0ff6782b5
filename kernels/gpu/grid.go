package gpu

// What operators share in laying out their work: grids, vector loads, the spans of a batch.

import (
	"headroom/kernels"
	"headroom/metal"
)

// RowsByColumns is a grid of threadgroups of up to threads threads, one to a column: (row, block of
// columns). Rows are the first dimension, as they are many.
func RowsByColumns(rows, cols, threads int) Grid {
	threads = min(threads, (cols+31)/32*32)
	if threads == 0 {
		return Grid{}
	}
	return Grid{Groups: metal.Size{X: rows, Y: (cols + threads - 1) / threads, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1}}
}

// Aligned16 tells whether every row of each tensor begins and ends at a multiple of 16 bytes, so
// that kernels may load it in vectors.
func Aligned16(tensors ...kernels.Tensor) bool {
	for _, t := range tensors {
		if o := operand(t, false); o.memory != nil &&
			(o.from|t.Stride*t.DType.Size()|t.Cols*t.DType.Size())%16 != 0 {
			return false
		}
	}
	return true
}

// Spans is a table of Span, common/span.h: where spans lie in the batch and in their sequences,
// without page tables.
func (c *Context) Spans(spans []kernels.Span) Operand {
	table := c.Table(4 * len(spans))
	for i, s := range spans {
		copy(table[4*i:], []int32{int32(s.Row), int32(s.Rows), int32(s.Pos), s.Slot})
	}
	return Ints(table)
}

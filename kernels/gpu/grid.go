package gpu

// Helpers that operators share: grids, vector loads, the spans of a batch.

import (
	"headroom/kernels"
	"headroom/metal"
)

// RowsByColumns returns a grid of threadgroups (row, block of columns) with one thread for each
// column, up to the given number of threads. Rows are the first dimension, because there are many
// of them.
func RowsByColumns(rows, cols, threads int) Grid {
	threads = min(threads, (cols+31)/32*32)
	if threads == 0 {
		return Grid{}
	}
	return Grid{Groups: metal.Size{X: rows, Y: (cols + threads - 1) / threads, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1}}
}

// ColumnThreads are the values of a choice for TunedColumns.
var ColumnThreads = []int{64, 128, 256, 512}

// TunedColumns is RowsByColumns with the number of threads that choice has for these sizes. untuned
// is the number where nothing was measured.
func (c *Context) TunedColumns(choice *Choice, rows, cols, untuned int) Grid {
	return RowsByColumns(rows, cols,
		c.Choose(choice, Shape{Octave(rows), Octave(cols)}, untuned))
}

// Aligned16 reports whether every row of each tensor begins and ends at a multiple of 16 bytes, so
// that kernels may use vector loads.
func Aligned16(tensors ...kernels.Tensor) bool {
	for _, t := range tensors {
		if o := operand(t, false); o.memory != nil &&
			(o.from|t.Stride*t.DType.Size()|t.Cols*t.DType.Size())%16 != 0 {
			return false
		}
	}
	return true
}

// Spans returns a table of Span (common/span.h): the rows of each span in the batch and its
// positions in the sequence, without page tables.
func (c *Context) Spans(spans []kernels.Span) Operand {
	table := c.Table(4 * len(spans))
	for i, s := range spans {
		copy(table[4*i:], []int32{int32(s.Row), int32(s.Rows), int32(s.Pos), s.Slot})
	}
	return Ints(table)
}

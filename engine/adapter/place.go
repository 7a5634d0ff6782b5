package adapter

// The memory of an adapter on a device: one buffer with all matrices.

import (
	"headroom/engine/ops"
	"headroom/kernels"
)

// alignBytes is the alignment of matrices, as in the arena of ops.
const alignBytes = 128

func aligned(bytes int) int { return (bytes + alignBytes - 1) &^ (alignBytes - 1) }

// Bytes returns the memory that Place needs.
func (f *Fitted) Bytes() int { return f.bytes }

// Place copies the matrices into memory, a buffer of a device of at least Bytes bytes which nothing
// uses, and returns what the operators add.
func (f *Fitted) Place(memory *kernels.Buffer) *ops.Adapter {
	a := &ops.Adapter{Changes: make(map[*kernels.Weight]*ops.LowRank, len(f.changes))}
	at := 0
	put := func(rows, cols int, values []float32) kernels.Tensor {
		t := kernels.Tensor{Buffer: memory, Offset: at, DType: kernels.F32, Rows: rows, Cols: cols,
			Stride: cols}
		copy(t.Float32s(), values)
		at += aligned(4 * len(values))
		return t
	}
	for w, c := range f.changes {
		l := &ops.LowRank{}
		b := &kernels.Weight{Experts: c.experts, N: c.n, K: c.rank,
			Data: put(c.experts*c.n, c.rank, c.b)}
		if c.product {
			l.A = &kernels.Weight{Experts: c.experts, N: c.rank, K: c.k,
				Data: put(c.experts*c.rank, c.k, c.a)}
			l.B = b
		}
		if c.lookup {
			l.Table = b
			l.Expand = &kernels.Weight{Experts: 1, N: c.k, K: c.rank,
				Data: put(c.k, c.rank, c.expand)}
		}
		if c.factor != nil {
			l.Factor = put(1, c.n, c.factor)
			if c.lookup {
				l.RowFactors = &kernels.Weight{Experts: 1, N: c.n, K: 1,
					Data: l.Factor.Reshape(c.n, 1)}
				l.Ones = &kernels.Weight{Experts: 1, N: c.k, K: 1, Data: put(c.k, 1, c.ones)}
			}
		}
		if c.columnFactor != nil {
			l.ColumnFactors = put(1, c.k, c.columnFactor)
		}
		a.Changes[w] = l
	}
	return a
}

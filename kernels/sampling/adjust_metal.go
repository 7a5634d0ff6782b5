package sampling

import (
	_ "embed"
	"math"

	"headroom/kernels/gpu"
)

//go:embed adjust.metal
var adjustText string

var adjustKernel = gpu.NewKernel[adjustParams](
	&gpu.Source{Name: "sampling/adjust.metal", Text: adjustText}, "adjust")

// adjustParams is AdjustParams of adjust.metal. Strides are in elements.
type adjustParams struct{ Vocab, LogitsStride, ChosenStride uint32 }

const (
	adjustmentInts = 8       // size of Adjustment of adjust.metal in the table
	mostTableInts  = 1 << 14 // largest table of a dispatch, unless a single row needs more
)

// tableInts returns the number of integers of a row in the table.
func (a *Adjustment) tableInts() int { return adjustmentInts + 2*len(a.Recent) + 2*len(a.Biases) }

// Metal implements gpu.Op. Each threadgroup adjusts one row. A dispatch has as many rows as fit in
// its table.
func (o *Adjust) Metal(c *gpu.Context) {
	for from := 0; from < len(o.Rows); {
		to, n := from, 0
		for ; to < len(o.Rows); to++ {
			more := o.Rows[to].tableInts()
			if to > from && n+more > mostTableInts {
				break
			}
			n += more
		}
		o.dispatch(c, from, to, n)
		from = to
	}
}

// dispatch adjusts rows [from, to) with a table of n integers.
func (o *Adjust) dispatch(c *gpu.Context, from, to, n int) {
	table, at := c.Table(n), adjustmentInts*(to-from)
	bits := func(x float32) int32 { return int32(math.Float32bits(x)) }
	for i := range to - from {
		a := &o.Rows[from+i]
		copy(table[adjustmentInts*i:],
			[]int32{int32(at), int32(len(a.Recent)), int32(len(a.Biases)), a.Chosen,
				bits(a.Repetition), bits(a.Presence), bits(a.Frequency), 0})
		for _, t := range a.Recent {
			table[at], table[at+1] = t.Token, t.Count
			at += 2
		}
		for _, b := range a.Biases {
			table[at], table[at+1] = b.Token, bits(b.Value)
			at += 2
		}
	}
	logits := o.Logits.RowRange(from, to)
	adjustKernel.Dispatch(c,
		adjustParams{uint32(logits.Cols), uint32(logits.Stride), uint32(o.Chosen.Stride)},
		gpu.Rows(to-from, 64),
		gpu.Ints(table), gpu.Read(o.Chosen), gpu.Write(logits))
}

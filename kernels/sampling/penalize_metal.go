package sampling

import (
	_ "embed"
	"math"

	"headroom/kernels/gpu"
)

//go:embed penalize.metal
var penalizeText string

var penalizeKernel = gpu.NewKernel[penalizeParams](&gpu.Source{Name: "sampling/penalize.metal", Text: penalizeText}, "penalize")

// penalizeParams is PenalizeParams of penalize.metal; strides in elements.
type penalizeParams struct{ Vocab, LogitsStride, ChosenStride uint32 }

// historyInts is the length of a History in the table of penalize.metal.
const historyInts = 6

// Metal implements gpu.Op: a threadgroup to a row.
func (o *Penalize) Metal(c *gpu.Context) {
	n := historyInts * len(o.Rows)
	for i := range o.Rows {
		n += 2 * len(o.Rows[i].Recent)
	}
	table := c.Table(n)
	at := historyInts * len(o.Rows)
	for i := range o.Rows {
		h := &o.Rows[i]
		bits := func(x float32) int32 { return int32(math.Float32bits(x)) }
		copy(table[historyInts*i:], []int32{int32(at), int32(len(h.Recent)), h.Chosen, bits(h.Repetition), bits(h.Presence), bits(h.Frequency)})
		for _, t := range h.Recent {
			table[at], table[at+1] = t.Token, t.Count
			at += 2
		}
	}
	penalizeKernel.Dispatch(c, penalizeParams{uint32(o.Logits.Cols), uint32(o.Logits.Stride), uint32(o.Chosen.Stride)}, gpu.Rows(len(o.Rows), 64),
		gpu.Ints(table), gpu.Read(o.Chosen), gpu.Write(o.Logits))
}

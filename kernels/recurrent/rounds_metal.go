package recurrent

import (
	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

// keepingValue returns the function constant of kernels that keep states inside a span; 0: they do
// not.
func keepingValue(keeping int) metal.ConstantValue {
	return metal.ConstantValue{Name: "keeping", Value: keeping == 1}
}

// spansAndKeeps returns the spans for a kernel. If a state is kept, keeping is 1, and an integer
// for each of the rows of the batch follows: the slot that gets the state after it, or -1.
func spansAndKeeps(c *gpu.Context, spans []kernels.Span, rounds []kernels.Round,
	rows int) (table gpu.Operand, keeping int) {
	if !keepsAny(rounds) {
		return c.Spans(spans), 0
	}
	ints := c.Table(4*len(spans) + rows)
	for i, s := range spans {
		copy(ints[4*i:], []int32{int32(s.Row), int32(s.Rows), int32(s.Pos), s.Slot})
	}
	keeps := ints[4*len(spans):]
	for i := range keeps {
		keeps[i] = -1
	}
	for _, r := range rounds {
		for _, k := range r.Keeps {
			keeps[lastRow(r.Spans, k.From)] = k.To
		}
	}
	return gpu.Ints(ints), 1
}

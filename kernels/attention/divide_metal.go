package attention

import (
	"headroom/kernels"
	"headroom/kernels/gpu"
)

// metalLeastRows is the number of rows below which Divide does not go. It is a multiple of the rows
// of a tile of prefill_attention.metal.
const metalLeastRows = 32

// Divide implements gpu.Divisible. Each part has some of the rows. Rows that see later ones of
// their span stay together.
func (o *Attention) Divide(parts int, run func(gpu.Op)) {
	rows := 0
	for i := range o.Spans {
		rows += o.Spans[i].Rows
	}
	most := max((rows+parts-1)/parts, metalLeastRows)
	if o.Following > 0 || most >= rows {
		run(o)
		return
	}
	part := *o
	part.Spans = nil
	left := most
	for _, s := range o.Spans {
		for s.Rows > 0 {
			var first kernels.Span
			first, s = s.Split(min(s.Rows, left))
			part.Spans = append(part.Spans, first)
			if left -= first.Rows; left == 0 {
				run(&part)
				part.Spans, left = part.Spans[:0], most
			}
		}
	}
	if len(part.Spans) > 0 {
		run(&part)
	}
}

package recurrent

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
)

func gatedDeltaCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		hk, hv, dk, dv int
		rows, pos      []int // of each span
	}{
		{1, 1, 2, 3, []int{4}, []int{0}},
		{1, 2, 32, 32, []int{5, 1, 3}, []int{0, 9, 1}},
		{2, 4, 40, 24, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}},
		{2, 6, 128, 128, []int{1, 130}, []int{3, 64}},
		{1, 1, 256, 37, []int{3}, []int{1}},
		{16, 32, 128, 128, []int{1}, []int{100}},
		{16, 32, 128, 128, []int{1, 1, 1, 1}, []int{100, 7, 1, 0}},
		{16, 32, 128, 128, []int{128}, []int{512}},
	} {
		spans, rows := spansOf(s.rows, s.pos)
		bench := int64(0)
		if s.hk == 16 {
			bench = 1
		}
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("gated_delta_f32_hk%d_hv%d_dk%d_dv%d_rows%v_pos%v", s.hk, s.hv, s.dk, s.dv, s.rows, s.pos),
			// Each token rounds by about 2^-24 of the value row's norm, here about 4: 2.4e-7. The decay remembers tens of tokens at
			// most and roundings do not line up, so sixteen times that is ample.
			AbsTol: 4e-6, RelTol: 2e-6,
			Why: "the state is float32 and its dot products add in 16 lanes, the reference carries it in float64; the decay forgets errors within tens of tokens",
			// The state must be read and written once. Seven operations per element and token: a multiply for the decay, a multiply
			// and an add each for S k, the update and S q.
			Bytes: bench * int64(8*len(spans)*s.hv*s.dv*s.dk),
			Flops: bench * int64(7*rows*s.hv*s.dv*s.dk),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &GatedDelta{
					QKV:    kernels.RandomTensor(d, r, rows, 2*s.hk*s.dk+s.hv*s.dv, 1),
					A:      kernels.RandomTensor(d, r, rows, s.hv, 1),
					B:      kernels.RandomTensor(d, r, rows, s.hv, 1),
					ALog:   kernels.RandomTensor(d, r, 1, s.hv, 1),
					DtBias: kernels.RandomTensor(d, r, 1, s.hv, 1),
					State:  kernels.RandomTensor(d, r, len(spans)+1, s.hv*s.dv*s.dk, 0.3),
					Spans:  spans,
					Out:    kernels.NewTensor(d, kernels.F32, rows, s.hv*s.dv),
					Hk:     s.hk, Hv: s.hv, Dk: s.dk, Dv: s.dv,
				}
				return o, []kernels.Tensor{o.Out, o.State}
			},
		})
	}
	return cases
}

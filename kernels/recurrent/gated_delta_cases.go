package recurrent

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
)

// gatedDeltaShape is a case.
type gatedDeltaShape struct {
	state          kernels.DType
	hk, hv, dk, dv int
	rows, pos      []int // of each span
}

func gatedDeltaCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []gatedDeltaShape{
		{kernels.F32, 1, 1, 2, 3, []int{4}, []int{0}},
		{kernels.F32, 1, 2, 32, 32, []int{5, 1, 3}, []int{0, 9, 1}},
		{kernels.F32, 2, 4, 40, 24, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}},
		{kernels.F32, 2, 6, 128, 128, []int{1, 130}, []int{3, 64}},
		{kernels.F32, 1, 1, 256, 37, []int{3}, []int{1}},
		{kernels.F32, 16, 32, 128, 128, []int{1}, []int{100}},
		{kernels.F32, 16, 32, 128, 128, []int{1, 1, 1, 1}, []int{100, 7, 1, 0}},
		{kernels.F32, 16, 32, 128, 128, []int{128}, []int{512}},
		{kernels.BF16, 2, 4, 40, 24, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}},
		{kernels.BF16, 1, 1, 256, 37, []int{3}, []int{1}},
		{kernels.BF16, 16, 32, 128, 128, []int{1}, []int{100}},
		{kernels.BF16, 16, 32, 128, 128, []int{128}, []int{512}},
		{kernels.I8, 2, 4, 40, 24, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}},
		{kernels.I8, 1, 1, 256, 37, []int{3}, []int{1}},
		{kernels.I8, 16, 32, 128, 128, []int{1}, []int{100}},
		{kernels.I8, 16, 32, 128, 128, []int{128}, []int{512}},
	} {
		cases = append(cases, s.toCase())
	}
	return cases
}

func (s gatedDeltaShape) toCase() kernels.Case {
	spans, rows := spansOf(s.rows, s.pos)
	bench := int64(0)
	if s.hk == 16 {
		bench = 1
	}
	c := kernels.Case{
		Name: fmt.Sprintf("gated_delta_%s_hk%d_hv%d_dk%d_dv%d_rows%v_pos%v", short(s.state), s.hk,
			s.hv, s.dk, s.dv, s.rows, s.pos),
		// The norm of a value row is about 4, so each token adds a rounding error of about 4 *
		// 2^-24 = 2.4e-7. Errors are independent and the decay forgets them within tens of tokens,
		// so sixteen times that is ample.
		AbsTol: 4e-6, RelTol: 2e-6,
		Why: "the state is float32 and its dot products sum in 16 lanes, the reference uses " +
			"float64; the decay forgets errors within tens of tokens",
		// The state must be read and written once. Seven operations per element and token: a
		// multiply for the decay, a multiply and an add each for S k, the update and S q.
		Bytes: bench * int64(2*len(spans)*StateCols(s.state, s.hv*s.dv,
			s.dk)*s.state.Size()),
		Flops: bench * int64(7*rows*s.hv*s.dv*s.dk),
		New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
			o := &GatedDelta{
				QKV:    kernels.RandomTensor(d, r, rows, 2*s.hk*s.dk+s.hv*s.dv, 1),
				A:      kernels.RandomTensor(d, r, rows, s.hv, 1),
				B:      kernels.RandomTensor(d, r, rows, s.hv, 1),
				ALog:   kernels.RandomTensor(d, r, 1, s.hv, 1),
				DtBias: kernels.RandomTensor(d, r, 1, s.hv, 1),
				State: randomState(d, r, len(spans)+1,
					stateLayout{s.state, s.hv * s.dv, s.dk, s.dk}, 0.3),
				Spans: spans,
				Out:   kernels.NewTensor(d, kernels.F32, rows, s.hv*s.dv),
				Hk:    s.hk, Hv: s.hv, Dk: s.dk, Dv: s.dv,
			}
			if s.state == kernels.F32 {
				return o, []kernels.Tensor{o.Out, o.State}
			}
			return o, []kernels.Tensor{o.Out} // TestKeptStates covers the state
		},
	}
	switch s.state {
	case kernels.BF16:
		c.AbsTol, c.Why = 3e-4,
			"values half way between two bfloat16s go to either: a few at a time, each off by "+
				"2^-8 of at most 1, times a query of at most 4 / Dk"
	case kernels.I8:
		c.AbsTol, c.Why = 6e-4,
			"values half way between two codes go to either: a few at a time, each off by 1/127 "+
				"of at most 1, times a query of at most 4 / Dk"
	}
	return c
}

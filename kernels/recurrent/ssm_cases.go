package recurrent

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
)

// ssmShape is a case.
type ssmShape struct {
	state                 kernels.DType
	heads, groups, dim, n int
	rows, pos             []int // of each span
}

func ssmCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []ssmShape{
		{kernels.F32, 1, 1, 3, 2, []int{4}, []int{0}},
		{kernels.F32, 2, 1, 32, 32, []int{5, 1, 3}, []int{0, 9, 1}},
		{kernels.F32, 4, 2, 24, 40, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}},
		{kernels.F32, 3, 3, 5, 23, []int{2, 70}, []int{3, 64}},
		{kernels.F32, 1, 1, 37, 256, []int{3}, []int{1}},
		{kernels.F32, 48, 1, 64, 128, []int{1}, []int{100}},
		{kernels.F32, 48, 1, 64, 128, []int{1, 1, 1, 1}, []int{100, 7, 1, 0}},
		{kernels.F32, 48, 1, 64, 128, []int{128}, []int{512}},
		{kernels.BF16, 4, 2, 24, 40, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}},
		{kernels.BF16, 1, 1, 37, 256, []int{3}, []int{1}},
		{kernels.BF16, 48, 1, 64, 128, []int{1}, []int{100}},
		{kernels.BF16, 48, 1, 64, 128, []int{128}, []int{512}},
		{kernels.I8, 4, 2, 24, 40, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}},
		{kernels.I8, 1, 1, 37, 256, []int{3}, []int{1}},
		{kernels.I8, 48, 1, 64, 128, []int{1}, []int{100}},
		{kernels.I8, 48, 1, 64, 128, []int{128}, []int{512}},
	} {
		cases = append(cases, s.toCase())
	}
	return cases
}

func (s ssmShape) toCase() kernels.Case {
	spans, rows := spansOf(s.rows, s.pos)
	bench := int64(0)
	if s.heads == 48 {
		bench = 1
	}
	c := kernels.Case{
		Name: fmt.Sprintf("ssm_%s_h%d_g%d_d%d_n%d_rows%v_pos%v", short(s.state), s.heads,
			s.groups, s.dim, s.n, s.rows, s.pos),
		AbsTol: 1e-6, RelTol: 2e-6,
		Why: "the state is float32 and its dot products sum in 16 lanes, the reference uses " +
			"float64; values are below 1 and the decay forgets errors within tens of tokens",
		// The state must be read and written once. Five operations per element and token: a
		// multiply for the decay, a multiply and an add each for the update and S C.
		Bytes: bench * int64(2*len(spans)*StateCols(s.state, s.heads*s.dim,
			s.n)*s.state.Size()),
		Flops: bench * int64(5*rows*s.heads*s.dim*s.n),
		New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
			o := s.op(d, r, rows)
			o.Spans = spans
			o.State = randomState(d, r, len(spans)+1, o.layoutIn(s.state), 0.02)
			if s.state == kernels.F32 {
				return o, []kernels.Tensor{o.Out, o.State}
			}
			return o, []kernels.Tensor{o.Out} // TestKeptSSMStates covers the state
		},
	}
	switch s.state {
	case kernels.BF16:
		c.AbsTol, c.Why = 3e-4,
			"values half way between two bfloat16s go to either: a few at a time, each off by "+
				"2^-8 of at most 0.1, times an element of C of at most 0.5"
	case kernels.I8:
		c.AbsTol, c.Why = 1e-3,
			"values half way between two codes go to either: a few at a time, each off by 1/127 "+
				"of at most 0.2, times an element of C of at most 0.5"
		if rows*s.heads*s.dim > 100_000 { // two whole codes; an H100 was off by 1.2e-3
			c.AbsTol = 1.6e-3
		}
	}
	return c
}

// op returns an operator on random operands, without State and Spans. Some of the steps are below
// DtMin, and some above DtMax.
func (s ssmShape) op(d kernels.Device, r *rand.Rand, rows int) *SSM {
	return &SSM{
		X:      kernels.RandomTensor(d, r, rows, s.heads*s.dim+2*s.groups*s.n, 0.12),
		Dt:     kernels.RandomTensor(d, r, rows, s.heads, 1),
		ALog:   kernels.RandomTensor(d, r, 1, s.heads, 1),
		DtBias: kernels.RandomTensor(d, r, 1, s.heads, 1),
		D:      kernels.RandomTensor(d, r, 1, s.heads, 1),
		Out:    kernels.NewTensor(d, kernels.F32, rows, s.heads*s.dim),
		Heads:  s.heads, Groups: s.groups, Dim: s.dim, N: s.n, DtMin: 0.2, DtMax: 1.5,
	}
}

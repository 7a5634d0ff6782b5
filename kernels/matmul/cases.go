package matmul

import (
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
)

// shape is a case: m rows times parts of n columns.
type shape struct {
	m, k    int
	n       []int
	experts int // 0: Linear
	choices int // experts per row
	perPair bool
	prefill Prefill
	bits    int
	group   int
	dtype   kernels.DType // U8: MXFP4 or MXFP8; E4M3: NVFP4 or FP8
}

// mode returns the mode of a quantized weight.
func (s shape) mode() kernels.Mode { return kernels.ModeOf(s.bits, s.dtype) }

func (s shape) name() string {
	format := fmt.Sprintf("%d-bit_g%d_%s", s.bits, s.group, s.dtype)
	switch {
	case s.bits == 0:
		format = s.dtype.String()
	case s.mode() == kernels.FP8:
		format = fmt.Sprintf("fp8_g%d", s.group)
	case s.mode() != kernels.Affine:
		format = s.mode().String()
	}
	for _, r := range s.prefill {
		format += fmt.Sprintf("_prefill_%d_to_%d", r.From, r.To)
	}
	if s.experts > 0 {
		return fmt.Sprintf("experts_%s_m%d_k%d_n%d_top%d_of_%d_down_%t", format, s.m, s.k, s.n,
			s.choices, s.experts, s.perPair)
	}
	return fmt.Sprintf("linear_%s_m%d_k%d_n%d", format, s.m, s.k, s.n)
}

// Cases returns the cases of this family for the tests, the benchmark and the self-test: every
// packing with every group and scale type, widths that are not a multiple of a vector, and sizes of
// real models.
func Cases() []kernels.Case {
	shapes := []shape{
		// Plain weights of any width.
		{m: 1, k: 1, n: []int{1}, dtype: kernels.F32},
		{m: 3, k: 37, n: []int{5, 19}, dtype: kernels.F32},
		{m: 9, k: 131, n: []int{33}, dtype: kernels.F16},
		{m: 1, k: 1000, n: []int{77}, dtype: kernels.BF16},
		{m: 18, k: 256, n: []int{128}, dtype: kernels.BF16},
		// The demo model: one token, and a short prompt.
		{m: 1, k: 256, n: []int{256, 128, 128}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 2, k: 256, n: []int{96}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 1, k: 512, n: []int{1024}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 40, k: 256, n: []int{512, 512}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 1, k: 256, n: []int{128}, experts: 8, choices: 2, bits: 4, group: 64,
			dtype: kernels.BF16},
		{m: 33, k: 256, n: []int{128, 128}, experts: 8, choices: 2, bits: 4, group: 64,
			dtype: kernels.BF16},
		{m: 33, k: 128, n: []int{256}, experts: 8, choices: 2, perPair: true, bits: 4, group: 64,
			dtype: kernels.BF16},
		{m: 5, k: 100, n: []int{30}, experts: 4, choices: 1, dtype: kernels.F32},
		{m: 2, k: 64, n: []int{8}, experts: 300, choices: 8, bits: 8, group: 32,
			dtype: kernels.F16},
		// Prefill on matrix units, between rows of decode.
		{m: 40, k: 37, n: []int{5, 67}, prefill: Prefill{{0, 40}}, dtype: kernels.F32},
		{m: 70, k: 131, n: []int{33}, prefill: Prefill{{1, 30}, {30, 30}, {35, 68}},
			dtype: kernels.F16},
		{m: 1, k: 256, n: []int{77}, prefill: Prefill{{0, 1}}, dtype: kernels.BF16},
		{m: 33, k: 128, n: []int{64, 3}, experts: 8, choices: 2, prefill: Prefill{{3, 33}}, bits: 4,
			group: 64, dtype: kernels.BF16},
		{m: 33, k: 64, n: []int{70}, experts: 8, choices: 2, perPair: true,
			prefill: Prefill{{0, 20}, {21, 32}}, bits: 5, group: 64, dtype: kernels.F16},
		{m: 150, k: 32, n: []int{8}, experts: 300, choices: 8, prefill: Prefill{{0, 150}}, bits: 8,
			group: 32, dtype: kernels.F16},
		{m: 70, k: 37, n: []int{9}, experts: 1, choices: 1, prefill: Prefill{{0, 70}},
			dtype: kernels.F32},
		{m: 1, k: 3072, n: []int{1024}, bits: 4, group: 64, dtype: kernels.F32},
		{m: 6, k: 96, n: []int{31, 1}, bits: 6, group: 32, dtype: kernels.F32},
		// MXFP4, in rows that end in half a chunk too.
		{m: 1, k: 512, n: []int{35}, bits: 4, group: 32, dtype: kernels.U8},
		{m: 7, k: 160, n: []int{19, 3}, bits: 4, group: 32, dtype: kernels.U8},
		{m: 37, k: 96, n: []int{70}, prefill: Prefill{{2, 36}}, bits: 4, group: 32,
			dtype: kernels.U8},
		{m: 33, k: 64, n: []int{40, 8}, experts: 8, choices: 2, prefill: Prefill{{3, 33}}, bits: 4,
			group: 32, dtype: kernels.U8},
		{m: 3, k: 128, n: []int{33}, experts: 8, choices: 2, perPair: true, bits: 4, group: 32,
			dtype: kernels.U8},
		// MXFP8 in the same ways.
		{m: 1, k: 512, n: []int{35}, bits: 8, group: 32, dtype: kernels.U8},
		{m: 7, k: 160, n: []int{19, 3}, bits: 8, group: 32, dtype: kernels.U8},
		{m: 37, k: 96, n: []int{70}, prefill: Prefill{{2, 36}}, bits: 8, group: 32,
			dtype: kernels.U8},
		{m: 33, k: 64, n: []int{40, 8}, experts: 8, choices: 2, prefill: Prefill{{3, 33}}, bits: 8,
			group: 32, dtype: kernels.U8},
		{m: 3, k: 128, n: []int{33}, experts: 8, choices: 2, perPair: true, bits: 8, group: 32,
			dtype: kernels.U8},
		// NVFP4 in the same ways.
		{m: 1, k: 512, n: []int{35}, bits: 4, group: 16, dtype: kernels.E4M3},
		{m: 7, k: 160, n: []int{19, 3}, bits: 4, group: 16, dtype: kernels.E4M3},
		{m: 37, k: 96, n: []int{70}, prefill: Prefill{{2, 36}}, bits: 4, group: 16,
			dtype: kernels.E4M3},
		{m: 33, k: 64, n: []int{40, 8}, experts: 8, choices: 2, prefill: Prefill{{3, 33}}, bits: 4,
			group: 16, dtype: kernels.E4M3},
		{m: 3, k: 128, n: []int{33}, experts: 8, choices: 2, perPair: true, bits: 4, group: 16,
			dtype: kernels.E4M3},
		// FP8 with a scale per 128 elements, also where the last group is shorter, or per row, and
		// per 96, which are no power of 2.
		{m: 1, k: 512, n: []int{35}, bits: 8, group: 128, dtype: kernels.E4M3},
		{m: 7, k: 160, n: []int{19, 3}, bits: 8, group: 128, dtype: kernels.E4M3},
		{m: 5, k: 160, n: []int{19, 3}, bits: 8, group: 160, dtype: kernels.E4M3},
		{m: 3, k: 480, n: []int{35}, bits: 8, group: 96, dtype: kernels.E4M3},
		{m: 37, k: 224, n: []int{70}, prefill: Prefill{{2, 36}}, bits: 8, group: 128,
			dtype: kernels.E4M3},
		{m: 33, k: 64, n: []int{40, 8}, experts: 8, choices: 2, prefill: Prefill{{3, 33}}, bits: 8,
			group: 128, dtype: kernels.E4M3},
		{m: 3, k: 192, n: []int{33}, experts: 8, choices: 2, perPair: true, bits: 8, group: 128,
			dtype: kernels.E4M3},
	}
	for i, bits := range []int{2, 3, 4, 5, 6, 8} {
		for j, group := range []int{32, 64, 128} {
			dtype := []kernels.DType{kernels.F32, kernels.F16, kernels.BF16}[(i+j)%3]
			shapes = append(shapes,
				shape{m: 1, k: 128 * (3 + i), n: []int{35}, bits: bits, group: group, dtype: dtype},
				shape{m: 21, k: 128 * (9 - i), n: []int{37}, bits: bits, group: group,
					dtype: dtype},
				shape{m: 37, k: 128 * (1 + j), n: []int{70}, prefill: Prefill{{i, 37 - j}},
					bits: bits, group: group, dtype: dtype})
		}
	}
	return append(list(shapes), gateUpCases()...)
}

// gateUpCases returns the cases of GateUp: in one pass and in three on Metal, with and without
// experts, with weights of one format and of two.
func gateUpCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		shape
		upBits int
	}{
		{shape{m: 3, k: 37, n: []int{19}, dtype: kernels.F32}, 0},
		{shape{m: 2, k: 70, n: []int{9}, dtype: kernels.BF16}, 0},
		{shape{m: 1, k: 256, n: []int{512}, bits: 4, group: 64, dtype: kernels.BF16}, 4},
		{shape{m: 9, k: 128, n: []int{33}, bits: 3, group: 32, dtype: kernels.F16}, 3},
		{shape{m: 40, k: 128, n: []int{70}, prefill: Prefill{{2, 40}}, bits: 8, group: 64,
			dtype: kernels.BF16}, 8},
		{shape{m: 2, k: 128, n: []int{20}, bits: 4, group: 64, dtype: kernels.BF16}, 8},
		{shape{m: 1, k: 256, n: []int{128}, experts: 8, choices: 2, bits: 4, group: 64,
			dtype: kernels.BF16}, 4},
		{shape{m: 5, k: 100, n: []int{30}, experts: 4, choices: 3, dtype: kernels.BF16}, 0},
		{shape{m: 33, k: 64, n: []int{34}, experts: 8, choices: 2, prefill: Prefill{{0, 33}},
			bits: 5, group: 64, dtype: kernels.F16}, 5},
		{shape{m: 2, k: 96, n: []int{21}, bits: 4, group: 32, dtype: kernels.U8}, 4},
		{shape{m: 1, k: 256, n: []int{32}, experts: 8, choices: 3, bits: 4, group: 32,
			dtype: kernels.U8}, 4},
		{shape{m: 2, k: 96, n: []int{21}, bits: 8, group: 32, dtype: kernels.U8}, 8},
		{shape{m: 5, k: 64, n: []int{18}, bits: 4, group: 32, dtype: kernels.U8}, 8},
	} {
		c := list([]shape{s.shape})[0]
		c.Name = fmt.Sprintf("gate_up_%d-bit_%s", s.upBits, c.Name)
		c.Bytes, c.Flops = 2*c.Bytes, 2*c.Flops
		c.AbsTol, c.Why = 8*c.AbsTol, "both factors are up to 4.5; for each of them: "+c.Why
		c.New = func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
			up := s.shape
			up.bits = s.upBits
			o := up.gateUp(d, r, s.bits)
			return o, []kernels.Tensor{o.Out}
		}
		cases = append(cases, c)
	}
	return cases
}

// gateUp returns the operator, with a gate of gateBits. Out is a column range of a wider tensor.
func (s shape) gateUp(d kernels.Device, r *rand.Rand, gateBits int) *GateUp {
	n, rows, scale := s.n[0], s.m*max(s.choices, 1), 1/math.Sqrt(float64(s.k))
	o := &GateUp{
		X: kernels.RandomTensor(d, r, s.m, s.k, 1),
		Gate: kernels.RandomWeight(d, r, max(s.experts, 1), n, s.k, gateBits, s.group, s.dtype,
			scale),
		Up: kernels.RandomWeight(d, r, max(s.experts, 1), n, s.k, s.bits, s.group, s.dtype,
			scale),
		Out:     kernels.NewTensor(d, kernels.F32, rows, n+3).Columns(1, 1+n),
		Temp:    kernels.NewTensor(d, kernels.F32, rows, n),
		Prefill: s.prefill,
	}
	if s.experts > 0 {
		o.IDs = kernels.NewTensor(d, kernels.I32, s.m, s.choices)
		for i := range o.IDs.Int32s() {
			o.IDs.Int32s()[i] = int32(r.IntN(s.experts))
		}
	}
	return o
}

// LargeCases returns cases at the sizes of real models for the benchmark. They are too slow for the
// scalar reference: their weights exceed the caches, or their prompts are long.
func LargeCases() []kernels.Case {
	shapes := []shape{
		{m: 1, k: 1024, n: []int{151936}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 1, k: 1024, n: []int{3072, 3072}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 4, k: 1024, n: []int{151936}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 8, k: 1024, n: []int{151936}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 1, k: 2048, n: []int{65536}, dtype: kernels.BF16},
		{m: 512, k: 1024, n: []int{2048, 1024, 1024}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 512, k: 2048, n: []int{1024}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 512, k: 1024, n: []int{3072, 3072}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 512, k: 3072, n: []int{1024}, bits: 4, group: 64, dtype: kernels.BF16},
		{m: 512, k: 1024, n: []int{2048}, dtype: kernels.BF16},
		{m: 512, k: 2048, n: []int{768, 768}, experts: 32, choices: 8, bits: 4, group: 64,
			dtype: kernels.BF16},
		{m: 1, k: 2048, n: []int{768, 768}, experts: 128, choices: 8, bits: 4, group: 64,
			dtype: kernels.BF16},
	}
	for _, bits := range []int{2, 3, 5, 6, 8} {
		shapes = append(shapes,
			shape{m: 1, k: 1024, n: []int{151936}, bits: bits, group: 64, dtype: kernels.BF16},
			shape{m: 512, k: 1024, n: []int{2048}, bits: bits, group: 64, dtype: kernels.BF16})
	}
	for _, group := range []int{32, 128} {
		shapes = append(shapes,
			shape{m: 1, k: 1024, n: []int{151936}, bits: 4, group: group, dtype: kernels.BF16},
			shape{m: 512, k: 1024, n: []int{2048}, bits: 4, group: group, dtype: kernels.BF16})
	}
	for _, bits := range []int{4, 8} { // MXFP4 and MXFP8
		for _, m := range []int{1, 4} {
			shapes = append(shapes, shape{m: m, k: 1024, n: []int{151936}, bits: bits, group: 32,
				dtype: kernels.U8})
		}
		shapes = append(shapes, shape{m: 512, k: 1024, n: []int{2048}, bits: bits, group: 32,
			dtype: kernels.U8})
	}
	for _, s := range []shape{{bits: 4, group: 16}, {bits: 8, group: 128}} { // NVFP4 and FP8
		s.k, s.dtype = 1024, kernels.E4M3
		for _, m := range []int{1, 4, 512} {
			if s.m, s.n = m, []int{151936}; m == 512 {
				s.n = []int{2048}
			}
			shapes = append(shapes, s)
		}
	}
	return list(shapes)
}

func list(shapes []shape) []kernels.Case {
	var cases []kernels.Case
	for _, s := range shapes {
		c := kernels.Case{
			Name:   s.name(),
			AbsTol: 2e-6, RelTol: 2e-6,
			Why: "float32 sums in sixteen lanes; operands are scaled so that outputs are about " +
				"1, the reference adds in float64",
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				return s.build(d, r)
			},
		}
		if s.bits > 0 && s.mode() < kernels.MXFP8 {
			c.AbsTol = 0.04
			c.Why = "the maximum of 64 normal activations is about 2.4, so a step is 0.019 and " +
				"the standard deviation of an error 0.0055; an output of about 1 has an error " +
				"of the same size; the tolerance is 7 times that (exact tests compare with " +
				"plain Go)"
		}
		n, rows := 0, s.m
		for _, v := range s.n {
			n += v
		}
		bytes := int64(n) * int64(s.k) * 2
		if s.bits > 0 {
			bytes = int64(n) * int64(s.k*s.bits/8+s.k/s.group*4)
		}
		switch {
		case s.bits == 0:
		case s.mode() == kernels.FP8:
			bytes = int64(n) * int64(s.k+4*((s.k+s.group-1)/s.group))
		case s.mode() != kernels.Affine:
			bytes = int64(n) * int64(s.k*s.bits/8+s.k/s.group)
		}
		if s.experts > 0 {
			rows *= s.choices
			bytes *= int64(min(s.experts, rows))
		}
		c.Bytes, c.Flops = bytes, 2*int64(rows)*int64(n)*int64(s.k)
		cases = append(cases, c)
	}
	return cases
}

// build returns the operator. Outputs are column ranges of one tensor, so their rows are strided.
func (s shape) build(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
	rows, xRows, total := s.m, s.m, 3
	if s.experts > 0 {
		rows *= s.choices
		if s.perPair {
			xRows = rows
		}
	}
	for _, n := range s.n {
		total += n
	}
	x := kernels.RandomTensor(d, r, xRows, s.k, 1)
	all := kernels.NewTensor(d, kernels.F32, rows, total)
	var parts []Part
	var outs []kernels.Tensor
	at := 0
	for _, n := range s.n {
		out := all.Columns(at, at+n)
		w := kernels.RandomWeight(d, r, max(s.experts, 1), n, s.k, s.bits, s.group, s.dtype,
			1/math.Sqrt(float64(s.k)))
		parts, outs, at = append(parts, Part{W: w, Out: out}), append(outs, out), at+n
	}
	if s.experts == 0 {
		return &Linear{X: x, Parts: parts, Prefill: s.prefill}, outs
	}
	ids := kernels.NewTensor(d, kernels.I32, s.m, s.choices)
	for i := range ids.Int32s() {
		ids.Int32s()[i] = int32(r.IntN(s.experts))
	}
	return &Experts{X: x, IDs: ids, Parts: parts, Prefill: s.prefill}, outs
}

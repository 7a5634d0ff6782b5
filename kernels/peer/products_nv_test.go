//go:build nv && linux

package peer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/matmul"
	"headroom/metal"
)

var quantized = []string{"steel/gemm/gemm.h", "quantized_utils.h", "quantized.h"}

// product is y = x W^T with m rows, or with the chosen ones of several experts.
type product struct {
	m, n, k          int
	bits             int // in groups of 64; 0 means bfloat16
	experts, choices int
	pair             bool // gate and up: two weights of one input
	prefill          bool
}

func (p product) name() string {
	format := fmt.Sprintf("%d-bit g64", p.bits)
	if p.bits == 0 {
		format = "bfloat16"
	}
	name := fmt.Sprintf("[%d, %d] %s, %d rows", p.n, p.k, format, p.m)
	if p.pair {
		name = "2 x " + name
	}
	if p.experts > 0 {
		name = fmt.Sprintf("experts, %d of %d: ", p.choices, p.experts) + name
	}
	return name
}

// bytes returns the weights that one run reads, in bytes.
func (p product) bytes() int {
	bits := 16.0
	if p.bits > 0 {
		bits = float64(p.bits) + 32.0/64
	}
	weights := max(1, p.choices*p.m) // experts are drawn apart, so rows share few
	if p.pair {
		weights *= 2
	}
	return weights * int(float64(p.n*p.k)*bits/8)
}

func (p product) tolerance() float64 { return 0.02 }

// build makes the operands of one run and what MLX runs on the same ones, in each way that it has.
func (p product) build(d kernels.Device, m *mlxSide, r *rand.Rand) pair {
	parts := 1
	if p.pair {
		parts = 2
	}
	rows := p.m * max(1, p.choices)
	xRows := p.m
	perPair := p.experts > 0 && !p.pair
	if perPair {
		xRows = rows
	}
	x := kernels.RandomTensor(d, r, xRows, p.k, 1)
	xBytes := m.memory(roundedToBF16(x))
	var ids kernels.Tensor
	var idBytes metal.Binding
	if p.experts > 0 {
		ids = kernels.NewTensor(d, kernels.I32, p.m, p.choices)
		for row := range p.m {
			for i, e := range r.Perm(p.experts)[:p.choices] {
				ids.Int32s()[row*p.choices+i] = int32(e)
			}
		}
		idBytes = m.memory(ids.Elements())
	}
	var out pair
	var ours []matmul.Part
	theirs := map[string][]call{}
	for range parts {
		w := kernels.RandomWeight(d, r, max(1, p.experts), p.n, p.k, p.bits, 64, kernels.BF16,
			1/math.Sqrt(float64(p.k)))
		o := kernels.NewTensor(d, kernels.F32, rows, p.n)
		ours = append(ours, matmul.Part{W: w, Out: o})
		y := m.empty(2 * rows * p.n)
		out.results = append(out.results, result{ours: o, theirs: y})
		for name, c := range p.calls(m, w, xBytes, idBytes, y, xRows) {
			theirs[name] = append(theirs[name], c)
		}
	}
	prefill := matmul.Prefill(nil)
	if p.prefill {
		prefill = matmul.Prefill{{From: 0, To: p.m}}
	}
	out.ours = &matmul.Linear{X: x, Parts: ours, Prefill: prefill}
	if p.experts > 0 {
		out.ours = &matmul.Experts{X: x, IDs: ids, Parts: ours, Prefill: prefill}
	}
	out.theirs = theirs
	return out
}

// calls returns the dispatches with which MLX computes a product, by the name of the kernel. Where
// it chooses one by the model of the GPU, all are listed.
func (p product) calls(m *mlxSide, w *kernels.Weight, x, ids, y metal.Binding, xRows int,
) map[string]call {
	if p.bits == 0 {
		return map[string]call{"gemv": p.gemv(m, w, x, y)}
	}
	operands := []metal.Binding{m.memory(w.Data.Elements()), m.memory(w.Scales.Elements()),
		m.memory(w.Biases.Elements()), x}
	kernel := func(format string, more ...any) metal.Pipeline {
		return m.pipeline(mlxKernel{files: quantized,
			instance: fmt.Sprintf(format, append([]any{p.bits}, more...)...)})
	}
	strides := []any{0, int32(0), int64(0), 0, int32(0), int64(0), int64(0), int64(0)}
	plain := func(k metal.Pipeline, label string, groups, threads metal.Size, sizes ...any) call {
		return call{label: label, pipeline: k, groups: groups, threads: threads,
			bindings: append(append(operands[:4:4], y), m.scalars(append(sizes, strides...)...)...)}
	}
	two := metal.Size{X: 32, Y: 2, Z: 1}
	switch {
	case p.experts > 0:
		// [tokens, choices, 1, K] by [E, N, K]: each pair is a batch of one row
		lhs := make([]byte, 4*p.m*p.choices)
		for i := range p.m * p.choices {
			at := i
			if xRows == p.m {
				at = i / p.choices
			}
			lhs[4*i], lhs[4*i+1] = byte(at), byte(at>>8)
		}
		k := kernel("affine_gather_qmv_fast<bfloat16_t, 64, %d, false>")
		wordsOfRow, groups := int64(p.k*p.bits/32), int64(p.k/64)
		n := int64(p.n)
		return map[string]call{"gather_qmv_fast": {label: "gather_qmv_fast", pipeline: k,
			groups: metal.Size{X: 1, Y: p.n / 8, Z: p.m * p.choices}, threads: two,
			bindings: append(append(operands[:4:4], m.memory(lhs), ids, y), m.scalars(p.k, p.n,
				1, [3]int32{int32(xRows), 1, int32(p.k)}, [3]int64{int64(p.k), int64(p.k), 1},
				1, [3]int32{int32(p.experts), int32(p.n), int32(wordsOfRow)},
				[3]int64{n * wordsOfRow, wordsOfRow, 1},
				[3]int64{n * groups, groups, 1}, [3]int64{n * groups, groups, 1},
				1, [1]int32{int32(p.m * p.choices)}, [1]int64{1}, [1]int64{1})...)}}
	case p.prefill:
		return map[string]call{"qmm_t": plain(
			kernel("affine_qmm_t<bfloat16_t, 64, %d, true, false>"), "qmm_t",
			metal.Size{X: p.n / 32, Y: (p.m + 31) / 32, Z: 1}, metal.Size{X: 32, Y: 2, Z: 2},
			p.k, p.n, p.m)}
	}
	all := map[string]call{"qmv_fast": plain(
		kernel("affine_qmv_fast<bfloat16_t, 64, %d, false>"), "qmv_fast",
		metal.Size{X: p.m, Y: p.n / 8, Z: 1}, two, p.k, p.n)}
	if p.m > 1 {
		tiles := (p.m + 4) / 5
		vectors := (p.m + tiles - 1) / tiles
		all["qmv_wide"] = plain(
			kernel("affine_qmv_wide<bfloat16_t, 64, %d, %d, 8, false>", vectors), "qmv_wide",
			metal.Size{X: tiles, Y: (p.n + 7) / 8, Z: 1}, two, p.k, p.n, p.m)
	}
	return all
}

// gemv is MLX's product of one row with a plain matrix.
func (p product) gemv(m *mlxSide, w *kernels.Weight, x, y metal.Binding) call {
	bm := 4
	if p.n >= 4096 {
		bm = 8
	}
	k := m.pipeline(mlxKernel{files: []string{"steel/gemm/gemm.h", "gemv.h"}, instance: fmt.Sprintf(
		"gemv<bfloat16_t, %d, 1, 1, 32, 4, 4, false, false>", bm)})
	bias := m.empty(16)
	return call{label: "gemv", pipeline: k,
		groups: metal.Size{X: p.n / (bm * 4), Y: 1, Z: 1}, threads: metal.Size{X: 32, Y: 1, Z: bm},
		bindings: append([]metal.Binding{m.memory(w.Data.Elements()), x, bias, y},
			m.scalars(p.k, p.n, p.k, float32(1), float32(0), 1, int32(1), int64(0), int64(0),
				int64(0), 1)...)}
}

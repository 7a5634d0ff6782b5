package moe

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Combine computes out = Σ_j weights[j]*experts[j] + sigmoid(sharedGate)*shared for each token,
// with j in the order of choice.
//
// Experts is float32 [M*K, H]: the outputs of the K chosen experts for token 0, then for token 1,
// and so on. Weights is contiguous float32 [M, K]. Shared, float32 [M, H], is the output of the
// expert that every token uses, or none. SharedGate, float32 [M, 1], is its gate; without one
// Shared is added unscaled. Out is float32 [M, H] and may be Shared.
//
// Bias, contiguous float32 [E, H], is added to the outputs of the experts before they are weighted,
// or none. It needs IDs, the chosen experts as contiguous int32 [M, K]. IDs are computed on the
// device, where Check cannot see them: for one outside [0, E) no bias is added.
type Combine struct {
	Experts    kernels.Tensor
	Weights    kernels.Tensor
	Shared     kernels.Tensor
	SharedGate kernels.Tensor
	Bias, IDs  kernels.Tensor
	Out        kernels.Tensor
}

// combineCols is the number of columns in a unit of work. With 8 experts a unit reads 16 KB.
const combineCols = 512

// Name implements kernels.Op.
func (o *Combine) Name() string { return "combine" }

// Check implements kernels.Op.
func (o *Combine) Check() error {
	m, h := o.Out.Rows, o.Out.Cols
	err := errors.Join(
		kernels.CheckShape("out", o.Out, kernels.F32, -1, -1),
		kernels.CheckShape("weights", o.Weights, kernels.F32, m, -1),
		kernels.CheckShape("experts", o.Experts, kernels.F32, m*o.Weights.Cols, h))
	if !o.Weights.Contiguous() {
		err = errors.Join(err, errors.New(
			"weights: got gaps between rows, expected a contiguous tensor"))
	}
	if !o.Bias.IsNone() {
		err = errors.Join(err, kernels.CheckShape("bias", o.Bias, kernels.F32, -1, h),
			kernels.CheckShape("ids", o.IDs, kernels.I32, m, o.Weights.Cols))
		if !o.Bias.Contiguous() || !o.IDs.Contiguous() {
			err = errors.Join(err, errors.New(
				"bias, ids: got gaps between rows, expected contiguous tensors"))
		}
	}
	if !o.Shared.IsNone() {
		err = errors.Join(err, kernels.CheckShape("shared", o.Shared, kernels.F32, m, h))
	}
	if !o.SharedGate.IsNone() {
		err = errors.Join(err, kernels.CheckShape("shared gate", o.SharedGate, kernels.F32, m, 1))
		if o.Shared.IsNone() {
			err = errors.Join(err, errors.New("shared gate: got one without a shared expert"))
		}
	}
	return err
}

func (o *Combine) blocks() int { return (o.Out.Cols + combineCols - 1) / combineCols }

// Reference implements kernels.Op.
func (o *Combine) Reference() { o.units(0, o.Out.Rows*o.blocks()) }

// units is the specification, and builds without cgo run it. Unit u is a block of columns of token
// u / blocks.
func (o *Combine) units(from, to int) {
	k := o.Weights.Cols
	for u := from; u < to; u++ {
		r, first := u/o.blocks(), u%o.blocks()*combineCols
		out, weights := o.Out.Row(r), o.Weights.Row(r)
		gate := 1.0
		if !o.SharedGate.IsNone() {
			gate = 1 / (1 + math.Exp(-float64(o.SharedGate.Row(r)[0])))
		}
		for i := first; i < min(first+combineCols, len(out)); i++ {
			var sum float64
			for j, w := range weights {
				x := o.Experts.Float32s()[(r*k+j)*o.Experts.Stride+i]
				if bias := o.biasOf(r*k + j); bias != nil {
					x += bias[i]
				}
				sum += float64(w) * float64(x)
			}
			if !o.Shared.IsNone() {
				sum += gate * float64(o.Shared.Row(r)[i])
			}
			out[i] = float32(sum)
		}
	}
}

// biasOf returns the bias of a row of Experts, or nil if it has none.
func (o *Combine) biasOf(row int) []float32 {
	if o.Bias.IsNone() {
		return nil
	}
	id := int(o.IDs.Int32s()[row])
	if id < 0 || id >= o.Bias.Rows {
		return nil
	}
	return o.Bias.Row(id)
}

// CPU implements kernels.Op.
func (o *Combine) CPU(c *cpu.Context) {
	if k, h := o.Weights.Cols, o.Out.Cols; h > 0 {
		c.Parallel(o, 0, o.Out.Rows*o.blocks(), 1+65536/((k+2)*min(h, combineCols)))
	}
}

// CPURange implements cpu.Task.
func (o *Combine) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.units(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

func combineCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		rows, k, h   int
		shared, gate bool
		experts      int // with biases, or 0
	}{{1, 2, 7, false, false, 0}, {3, 3, 100, true, false, 0}, {5, 8, 600, true, true, 0},
		{1, 8, 2048, true, true, 0}, {512, 8, 2048, true, true, 0}, {3, 2, 7, false, false, 3},
		{5, 4, 600, true, true, 32}, {1, 4, 2880, false, false, 32},
		{512, 4, 2880, false, false, 32}} {
		name := fmt.Sprintf("combine_f32_m%d_k%d_h%d_shared_%t_gate_%t", s.rows, s.k, s.h, s.shared,
			s.gate)
		if s.experts > 0 {
			name += fmt.Sprintf("_bias_%d", s.experts)
		}
		cases = append(cases, kernels.Case{
			Name:   name,
			AbsTol: 6e-6, RelTol: 1e-6,
			Why: "up to 9 products of size up to 5 are added in float32: 9 roundings of at most " +
				"2^-24 times the largest partial sum, about 10",
			Bytes: int64(4 * s.rows * s.h * (s.k + 2)),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Combine{
					Experts: kernels.RandomTensor(d, r, s.rows*s.k, s.h, 1),
					Weights: kernels.RandomTensor(d, r, s.rows, s.k, 1),
					Out:     kernels.NewTensor(d, kernels.F32, s.rows, s.h),
				}
				if s.shared {
					o.Shared = kernels.RandomTensor(d, r, s.rows, s.h, 1)
				}
				if s.gate {
					o.SharedGate = kernels.RandomTensor(d, r, s.rows, 1, 1)
				}
				if s.experts > 0 {
					o.Bias = kernels.RandomTensor(d, r, s.experts, s.h, 1)
					o.IDs = kernels.NewTensor(d, kernels.I32, s.rows, s.k)
					for i := range o.IDs.Int32s() {
						o.IDs.Int32s()[i] = r.Int32N(int32(s.experts))
					}
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}

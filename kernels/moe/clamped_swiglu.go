package moe

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// ClampedSwiGLU computes the activation of gpt-oss between the projections of an expert. Each row
// is a pair of a token and an expert, whose biases are added first:
//
//	g = min(gate + GateBias[id], Limit)
//	u = min(max(up + UpBias[id], -Limit), Limit)
//	out = g * sigmoid(Alpha*g) * (u + 1)
//
// Gate, Up and Out are float32 [M*k, I], in the order of the contiguous IDs, int32 [M, k]. The
// biases are contiguous float32 [E, I]. Out may be Gate or Up. IDs are computed on the device,
// where Check cannot see them: one outside [0, E) gives a row of NaN.
type ClampedSwiGLU struct {
	Gate, Up         kernels.Tensor
	IDs              kernels.Tensor
	GateBias, UpBias kernels.Tensor
	Limit, Alpha     float32
	Out              kernels.Tensor
}

const (
	swigluCols  = 1024  // columns in a unit of work
	swigluGrain = 16384 // elements: about 10 µs of work
)

// Name implements kernels.Op.
func (o *ClampedSwiGLU) Name() string { return "clamped_swiglu" }

// Check implements kernels.Op.
func (o *ClampedSwiGLU) Check() error {
	rows, cols := o.Out.Rows, o.Out.Cols
	err := errors.Join(
		kernels.CheckShape("out", o.Out, kernels.F32, -1, -1),
		kernels.CheckShape("gate", o.Gate, kernels.F32, rows, cols),
		kernels.CheckShape("up", o.Up, kernels.F32, rows, cols),
		kernels.CheckShape("ids", o.IDs, kernels.I32, -1, -1),
		kernels.CheckShape("gate bias", o.GateBias, kernels.F32, -1, cols),
		kernels.CheckShape("up bias", o.UpBias, kernels.F32, o.GateBias.Rows, cols))
	if o.IDs.Rows*o.IDs.Cols != rows {
		err = errors.Join(err, fmt.Errorf("ids: got %s, expected one for each of %d rows", o.IDs,
			rows))
	}
	if !o.IDs.Contiguous() || !o.GateBias.Contiguous() || !o.UpBias.Contiguous() {
		err = errors.Join(err, errors.New(
			"ids, biases: got gaps between rows, expected contiguous tensors"))
	}
	if !(o.Limit > 0) {
		err = errors.Join(err, fmt.Errorf("limit: got %g, expected a positive number", o.Limit))
	}
	return err
}

func (o *ClampedSwiGLU) blocks() int { return (o.Out.Cols + swigluCols - 1) / swigluCols }

// Reference implements kernels.Op.
func (o *ClampedSwiGLU) Reference() { o.units(0, o.Out.Rows*o.blocks()) }

// units is the specification, and builds without cgo run it. Unit u is a block of columns of row
// u / blocks.
func (o *ClampedSwiGLU) units(from, to int) {
	for u := from; u < to; u++ {
		r, first := u/o.blocks(), u%o.blocks()*swigluCols
		gate, up, out := o.Gate.Row(r), o.Up.Row(r), o.Out.Row(r)
		id := int(o.IDs.Int32s()[r])
		if id < 0 || id >= o.GateBias.Rows {
			for i := first; i < min(first+swigluCols, len(out)); i++ {
				out[i] = float32(math.NaN())
			}
			continue
		}
		gateBias, upBias := o.GateBias.Row(id), o.UpBias.Row(id)
		for i := first; i < min(first+swigluCols, len(out)); i++ {
			// min and max of a NaN are NaN.
			g := min(gate[i]+gateBias[i], o.Limit)
			u := min(max(up[i]+upBias[i], -o.Limit), o.Limit)
			sigmoid := 1 / (1 + math.Exp(-float64(o.Alpha*g)))
			out[i] = float32(float64(g) * sigmoid * float64(u+1))
		}
	}
}

// CPU implements kernels.Op.
func (o *ClampedSwiGLU) CPU(c *cpu.Context) {
	if o.Out.Rows > 0 && o.Out.Cols > 0 {
		c.Parallel(o, 0, o.Out.Rows*o.blocks(), 1+swigluGrain/min(o.Out.Cols, swigluCols))
	}
}

// CPURange implements cpu.Task.
func (o *ClampedSwiGLU) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.units(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

func clampedSwiGLUCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		rows, k, cols, experts int
		inPlace                bool
	}{{1, 2, 5, 3, false}, {3, 3, 1040, 4, true}, {1, 4, 2880, 32, false},
		{512, 4, 2880, 32, true}} {
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("clamped_swiglu_f32_m%d_k%d_n%d_e%d_inplace_%t", s.rows, s.k, s.cols,
				s.experts, s.inPlace),
			AbsTol: 1e-6, RelTol: 1e-6,
			Why: "v_exp has a relative error of 2e-7, and five float32 roundings follow; " +
				"rounding its argument changes small results, of negative gates, by less than 1e-6",
			Bytes: int64(12 * s.rows * s.k * s.cols),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				// A third of the values exceeds the limit.
				o := &ClampedSwiGLU{
					Gate:     kernels.RandomTensor(d, r, s.rows*s.k, s.cols, 6),
					Up:       kernels.RandomTensor(d, r, s.rows*s.k, s.cols, 6),
					IDs:      kernels.NewTensor(d, kernels.I32, s.rows, s.k),
					GateBias: kernels.RandomTensor(d, r, s.experts, s.cols, 3),
					UpBias:   kernels.RandomTensor(d, r, s.experts, s.cols, 3),
					Limit:    7, Alpha: 1.702,
				}
				for i := range o.IDs.Int32s() {
					o.IDs.Int32s()[i] = r.Int32N(int32(s.experts))
				}
				if o.Out = o.Gate; !s.inPlace {
					o.Out = kernels.NewTensor(d, kernels.F32, s.rows*s.k, s.cols)
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}

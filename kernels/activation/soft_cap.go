package activation

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// SoftCap computes out = Cap * tanh(x / Cap), which is close to x for small x and between -Cap and
// Cap for all x. Gemma applies it to the logits (Gemma Team 2024, "Gemma 2").
//
// X and Out are float32 [M, N], and their strides may differ. Out may be X. Cap is positive.
type SoftCap struct {
	X   kernels.Tensor
	Out kernels.Tensor
	Cap float32
}

// Name implements kernels.Op.
func (o *SoftCap) Name() string { return "soft_cap" }

// Check implements kernels.Op.
func (o *SoftCap) Check() error {
	err := errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("out", o.Out, kernels.F32, o.X.Rows, o.X.Cols))
	if !(o.Cap > 0) || math.IsInf(float64(o.Cap), 0) {
		err = errors.Join(err, fmt.Errorf("cap: got %g, expected a positive number", o.Cap))
	}
	return err
}

// Reference implements kernels.Op.
func (o *SoftCap) Reference() { o.units(0, o.Out.Rows*blocksPerRow(o.Out)) }

// units computes units [from, to), which are those of the operators with two inputs. It is the
// specification, and builds without cgo run it.
func (o *SoftCap) units(from, to int) {
	blocks, most := blocksPerRow(o.Out), float64(o.Cap)
	for u := from; u < to; u++ {
		r, first := u/blocks, u%blocks*blockCols
		x, out := o.X.Row(r), o.Out.Row(r)
		for i := first; i < min(first+blockCols, len(out)); i++ {
			out[i] = float32(most * math.Tanh(float64(x[i])/most))
		}
	}
}

// CPU implements kernels.Op.
func (o *SoftCap) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *SoftCap) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.units(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

func softCapCases() []kernels.Case {
	var list []kernels.Case
	for _, s := range []struct {
		rows, cols int
		deviation  float64 // of x
		most       float32
		inPlace    bool
	}{{1, 5, 3, 2, false}, {3, 1040, 40, 30, true}, {2, 4096, 1e-3, 30, false},
		{1, 262144, 12, 30, true}} {
		list = append(list, kernels.Case{
			Name: fmt.Sprintf("soft_cap_f32_m%d_n%d_sd%g_cap%g_inplace_%t", s.rows, s.cols,
				s.deviation, s.most, s.inPlace),
			RelTol: 8e-7,
			Why: "v_tanh is within 4e-7, and the quotient and the product take three float32 " +
				"roundings; the reference is float64",
			Bytes: int64(8 * s.rows * s.cols),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &SoftCap{X: kernels.RandomTensor(d, r, s.rows, s.cols, s.deviation),
					Cap: s.most}
				if o.Out = o.X; !s.inPlace {
					o.Out = kernels.NewTensor(d, kernels.F32, s.rows, s.cols)
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return list
}

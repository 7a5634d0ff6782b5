package norm

// Normalization and gate in one pass over memory.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// GatedRMSNorm computes out = rmsnorm(x) * weight * silu(gate) for each row of X. It is the norm at
// the end of GatedDeltaNet, where a row is one value head of one token (Yang et al. 2024, "Gated
// Delta Networks").
//
// X, Gate and Out are float32 [R, N] with R = M*Hv and N = Dv, and their strides may differ.
// Weight is float32 [1, N]. Out may be X or Gate.
type GatedRMSNorm struct {
	X      kernels.Tensor
	Gate   kernels.Tensor
	Weight kernels.Tensor
	Out    kernels.Tensor
	Eps    float32
}

// Name implements kernels.Op.
func (o *GatedRMSNorm) Name() string { return "gated_rms_norm" }

// Check implements kernels.Op.
func (o *GatedRMSNorm) Check() error {
	m, n := o.X.Rows, o.X.Cols
	return errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("gate", o.Gate, kernels.F32, m, n),
		kernels.CheckShape("weight", o.Weight, kernels.F32, 1, n),
		kernels.CheckShape("out", o.Out, kernels.F32, m, n))
}

// Reference implements kernels.Op.
func (o *GatedRMSNorm) Reference() { o.rows(0, o.X.Rows) }

// rows computes rows [from, to). It is the specification, and builds without cgo run it.
func (o *GatedRMSNorm) rows(from, to int) {
	w := o.Weight.Float32s()
	for r := from; r < to; r++ {
		x, gate, out := o.X.Row(r), o.Gate.Row(r), o.Out.Row(r)
		var squares float64
		for _, v := range x {
			squares += float64(v) * float64(v)
		}
		scale := 1 / math.Sqrt(squares/float64(len(x))+float64(o.Eps))
		for i, v := range x {
			silu := float64(gate[i]) / (1 + math.Exp(-float64(gate[i])))
			out[i] = float32(float64(v) * scale * float64(w[i]) * silu)
		}
	}
}

// CPU implements kernels.Op. Rows are independent.
func (o *GatedRMSNorm) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.X.Rows, 1+8192/max(o.X.Cols, 1))
}

// CPURange implements cpu.Task.
func (o *GatedRMSNorm) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.rows(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

func gatedRMSNormCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		rows, cols int
		strided    bool
	}{{1, 32, false}, {3, 100, true}, {7, 17, false}, {32, 128, false}, {8192, 128, true}} {
		cases = append(cases, kernels.Case{
			Name:   fmt.Sprintf("gated_rms_norm_f32_m%d_n%d_strided_%t", s.rows, s.cols, s.strided),
			RelTol: 3e-6,
			Why: "the sum of squares uses 16 float32 lanes and v_exp is within 2e-7, " +
				"the reference is float64",
			Bytes: int64(12 * s.rows * s.cols),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &GatedRMSNorm{
					X:      kernels.RandomTensor(d, r, s.rows, s.cols, 3),
					Gate:   kernels.RandomTensor(d, r, s.rows, s.cols, 3),
					Weight: kernels.RandomTensor(d, r, 1, s.cols, 1),
					Out:    kernels.NewTensor(d, kernels.F32, s.rows, s.cols),
					Eps:    1e-6,
				}
				if s.strided {
					o.Gate = kernels.RandomTensor(d, r, s.rows, 2*s.cols, 3).Columns(s.cols,
						2*s.cols)
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}

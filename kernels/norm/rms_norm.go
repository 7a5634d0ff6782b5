package norm

// RMSNorm fused with the residual addition before it. Both are bound by memory, and one pass halves
// the traffic.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// RMSNorm computes out = x / sqrt(mean(x²) + Eps) * Weight for each row of X (Zhang and Sennrich
// 2019, "Root Mean Square Layer Normalization"). If there is a Residual, X is added to it first,
// and the sum is normalized.
//
// X, Residual and Out are float32 [M, N], Weight is float32 [1, N]. Out may be X.
type RMSNorm struct {
	X        kernels.Tensor
	Residual kernels.Tensor // none, or read and written: residual += x
	Weight   kernels.Tensor
	Out      kernels.Tensor
	Eps      float32
}

// Name implements kernels.Op.
func (o *RMSNorm) Name() string { return "rms_norm" }

// Check implements kernels.Op.
func (o *RMSNorm) Check() error {
	m, n := o.X.Rows, o.X.Cols
	err := errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("weight", o.Weight, kernels.F32, 1, n),
		kernels.CheckShape("out", o.Out, kernels.F32, m, n))
	if !o.Residual.IsNone() {
		err = errors.Join(err, kernels.CheckShape("residual", o.Residual, kernels.F32, m, n))
	}
	return err
}

// Reference implements kernels.Op.
func (o *RMSNorm) Reference() { o.rows(0, o.X.Rows) }

// rows computes rows [from, to). It is the specification, and builds without cgo run it.
func (o *RMSNorm) rows(from, to int) {
	w := o.Weight.Float32s()
	for r := from; r < to; r++ {
		x, out := o.X.Row(r), o.Out.Row(r)
		if !o.Residual.IsNone() {
			sum := o.Residual.Row(r)
			for i := range sum {
				sum[i] += x[i]
			}
			x = sum
		}
		var squares float64
		for _, v := range x {
			squares += float64(v) * float64(v)
		}
		scale := float32(1 / math.Sqrt(squares/float64(len(x))+float64(o.Eps)))
		for i, v := range x {
			out[i] = v * scale * w[i]
		}
	}
}

// CPU implements kernels.Op. Rows are independent.
func (o *RMSNorm) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.X.Rows, 1+8192/o.X.Cols)
}

// CPURange implements cpu.Task.
func (o *RMSNorm) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.rows(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

func rmsNormCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		rows, cols int
		residual   bool
	}{{1, 256, false}, {1, 5120, true}, {3, 100, false}, {7, 17, true}, {64, 128, false},
		{128, 2048, true}} {
		cases = append(cases, kernels.Case{
			Name:   fmt.Sprintf("rms_norm_f32_m%d_n%d_residual_%t", s.rows, s.cols, s.residual),
			RelTol: 3e-6, AbsTol: 1e-7,
			Why:   "the sum of squares uses 16 float32 lanes, the reference float64",
			Bytes: int64(8 * s.rows * s.cols),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &RMSNorm{
					X:      kernels.RandomTensor(d, r, s.rows, s.cols, 3),
					Weight: kernels.RandomTensor(d, r, 1, s.cols, 1),
					Out:    kernels.NewTensor(d, kernels.F32, s.rows, s.cols),
					Eps:    1e-6,
				}
				if s.residual {
					o.Residual = kernels.RandomTensor(d, r, s.rows, s.cols, 3)
					return o, []kernels.Tensor{o.Out, o.Residual}
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}

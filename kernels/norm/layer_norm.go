package norm

// LayerNorm fused with the residual addition before it, as encoders such as BERT have it.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// LayerNorm computes out = (x - mean(x)) / sqrt(variance(x) + Eps) * Weight + Bias for each row of
// X (Ba, Kiros and Hinton 2016, "Layer Normalization"). If there is a Residual, X is added to it
// first, and the sum is normalized.
//
// X, Residual and Out are float32 [M, N], Weight and Bias are float32 [1, N]. Bias may be none. Out
// may be X or Residual.
type LayerNorm struct {
	X        kernels.Tensor
	Residual kernels.Tensor // none, or read and written: residual += x
	Weight   kernels.Tensor
	Bias     kernels.Tensor // or none
	Out      kernels.Tensor
	Eps      float32
}

// Name implements kernels.Op.
func (o *LayerNorm) Name() string { return "layer_norm" }

// Check implements kernels.Op.
func (o *LayerNorm) Check() error {
	m, n := o.X.Rows, o.X.Cols
	err := errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("weight", o.Weight, kernels.F32, 1, n),
		kernels.CheckShape("out", o.Out, kernels.F32, m, n))
	if !o.Residual.IsNone() {
		err = errors.Join(err, kernels.CheckShape("residual", o.Residual, kernels.F32, m, n))
	}
	if !o.Bias.IsNone() {
		err = errors.Join(err, kernels.CheckShape("bias", o.Bias, kernels.F32, 1, n))
	}
	return err
}

// Reference implements kernels.Op.
func (o *LayerNorm) Reference() { o.rows(0, o.X.Rows) }

// rows computes rows [from, to). It is the specification, and builds without cgo run it.
func (o *LayerNorm) rows(from, to int) {
	w := o.Weight.Float32s()
	var bias []float32
	if !o.Bias.IsNone() {
		bias = o.Bias.Float32s()
	}
	for r := from; r < to; r++ {
		x, out := o.X.Row(r), o.Out.Row(r)
		if !o.Residual.IsNone() {
			sum := o.Residual.Row(r)
			for i := range sum {
				sum[i] += x[i]
			}
			x = sum
		}
		var mean, squares float64
		for _, v := range x {
			mean += float64(v)
		}
		mean /= float64(len(x))
		for _, v := range x {
			squares += (float64(v) - mean) * (float64(v) - mean)
		}
		scale := 1 / math.Sqrt(squares/float64(len(x))+float64(o.Eps))
		for i, v := range x {
			out[i] = float32((float64(v) - mean) * scale * float64(w[i]))
			if bias != nil {
				out[i] += bias[i]
			}
		}
	}
}

// CPU implements kernels.Op. Rows are independent.
func (o *LayerNorm) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.X.Rows, 1+8192/o.X.Cols)
}

// CPURange implements cpu.Task.
func (o *LayerNorm) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.rows(from, to)
		return
	}
	o.native(c.ISA, from, to)
}

func layerNormCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		rows, cols     int
		residual, bias bool
	}{{1, 384, false, true}, {1, 1024, true, false}, {3, 100, false, false}, {7, 17, true, true},
		{64, 768, true, true}, {512, 384, false, true}} {
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("layer_norm_f32_m%d_n%d_residual_%t_bias_%t", s.rows, s.cols,
				s.residual, s.bias),
			RelTol: 3e-6, AbsTol: 3e-6,
			Why: "the mean is subtracted in float32, which rounds elements near the mean; the " +
				"reference is float64",
			Bytes: int64(8 * s.rows * s.cols),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &LayerNorm{
					X:      kernels.RandomTensor(d, r, s.rows, s.cols, 3),
					Weight: kernels.RandomTensor(d, r, 1, s.cols, 1),
					Out:    kernels.NewTensor(d, kernels.F32, s.rows, s.cols),
					Eps:    1e-12,
				}
				if s.bias {
					o.Bias = kernels.RandomTensor(d, r, 1, s.cols, 1)
				}
				if s.residual {
					o.Residual = kernels.RandomTensor(d, r, s.rows, s.cols, 3)
					o.Out = o.Residual
				}
				return o, []kernels.Tensor{o.Out}
			},
		})
	}
	return cases
}

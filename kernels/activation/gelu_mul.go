package activation

import (
	"math"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// GELUMul computes out = gelu(gate) * up, the product of a GEGLU feed-forward (Shazeer 2020, "GLU
// Variants Improve Transformer"). It uses the tanh approximation (Hendrycks and Gimpel 2016,
// "Gaussian Error Linear Units"), which Hugging Face calls gelu_pytorch_tanh:
//
//	gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
//
// Gate, Up and Out are float32 [M, N], and their strides may differ. Out may be Gate or Up.
type GELUMul struct {
	Gate kernels.Tensor
	Up   kernels.Tensor
	Out  kernels.Tensor
}

// Name implements kernels.Op.
func (o *GELUMul) Name() string { return "gelu_mul" }

// Check implements kernels.Op.
func (o *GELUMul) Check() error { return check("gate", o.Gate, "up", o.Up, o.Out) }

// Reference implements kernels.Op.
func (o *GELUMul) Reference() {
	geluMul.rows(o.Gate, o.Up, o.Out, 0, o.Out.Rows*blocksPerRow(o.Out))
}

// CPU implements kernels.Op.
func (o *GELUMul) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *GELUMul) CPURange(c *cpu.Context, _, _, from, to int) {
	geluMul.run(c.ISA, o.Gate, o.Up, o.Out, from, to)
}

func gelu(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func geluMulCases() []kernels.Case {
	list := cases("gelu_mul", 8e-7,
		"v_exp has a relative error of 2e-7, and six float32 roundings follow; rounding the "+
			"argument of v_exp changes small results, of negative gates, by less than 2e-7",
		func(x, y, out kernels.Tensor) kernels.Op { return &GELUMul{Gate: x, Up: y, Out: out} })
	for i := range list {
		list[i].AbsTol = 2e-7
	}
	return list
}

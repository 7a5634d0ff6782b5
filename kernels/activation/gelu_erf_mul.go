package activation

import (
	"math"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// GELUErfMul computes out = gelu(gate) * up with the error function, which Hugging Face calls gelu
// (Hendrycks and Gimpel 2016, "Gaussian Error Linear Units"). Encoders such as BERT and ModernBERT
// have it:
//
//	gelu(x) = x/2 * (1 + erf(x / sqrt(2)))
//
// Gate, Up and Out are float32 [M, N], and their strides may differ. Out may be Gate or Up. For the
// activation alone, Up is a row of ones that repeats.
type GELUErfMul struct {
	Gate kernels.Tensor
	Up   kernels.Tensor
	Out  kernels.Tensor
}

// Name implements kernels.Op.
func (o *GELUErfMul) Name() string { return "gelu_erf_mul" }

// Check implements kernels.Op.
func (o *GELUErfMul) Check() error { return check("gate", o.Gate, "up", o.Up, o.Out) }

// Reference implements kernels.Op.
func (o *GELUErfMul) Reference() {
	geluErfMul.rows(o.Gate, o.Up, o.Out, 0, o.Out.Rows*blocksPerRow(o.Out))
}

// CPU implements kernels.Op.
func (o *GELUErfMul) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *GELUErfMul) CPURange(c *cpu.Context, _, _, from, to int) {
	geluErfMul.run(c.ISA, o.Gate, o.Up, o.Out, from, to)
}

func geluErf(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }

func geluErfMulCases() []kernels.Case {
	const why = "the approximation of the error function is within 1.5e-7, of gates and factors " +
		"up to about 15; v_exp and the products round in float32"
	build := func(x, y, out kernels.Tensor) kernels.Op {
		return &GELUErfMul{Gate: x, Up: y, Out: out}
	}
	list := append(cases("gelu_erf_mul", 8e-7, why, build),
		repeatedCases("gelu_erf_mul", "row", build)...)
	for i := range list {
		list[i].RelTol, list[i].AbsTol, list[i].Why = 8e-7, 6e-6, why
	}
	return list
}

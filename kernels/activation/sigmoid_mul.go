package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// SigmoidMul computes out = x * sigmoid(gate), the output gate of attention.
//
// X, Gate and Out are float32 [M, N], and their strides may differ. Out may be X or Gate.
type SigmoidMul struct {
	X    kernels.Tensor
	Gate kernels.Tensor
	Out  kernels.Tensor
}

// Name implements kernels.Op.
func (o *SigmoidMul) Name() string { return "sigmoid_mul" }

// Check implements kernels.Op.
func (o *SigmoidMul) Check() error { return check("x", o.X, "gate", o.Gate, o.Out) }

// Reference implements kernels.Op.
func (o *SigmoidMul) Reference() {
	sigmoidMul.rows(o.X, o.Gate, o.Out, 0, o.Out.Rows*blocksPerRow(o.Out))
}

// CPU implements kernels.Op.
func (o *SigmoidMul) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *SigmoidMul) CPURange(c *cpu.Context, _, _, from, to int) {
	sigmoidMul.run(c.ISA, o.X, o.Gate, o.Out, from, to)
}

func sigmoidMulCases() []kernels.Case {
	return cases("sigmoid_mul", 8e-7,
		"v_exp is within 2e-7 and three float32 roundings follow; the reference is float64",
		func(x, y, out kernels.Tensor) kernels.Op { return &SigmoidMul{X: x, Gate: y, Out: out} })
}

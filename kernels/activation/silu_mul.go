package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// SiLUMul computes out = silu(gate) * up with silu(x) = x * sigmoid(x), the product of a SwiGLU
// feed-forward (Shazeer 2020, "GLU Variants Improve Transformer").
//
// Gate, Up and Out are float32 [M, N], and their strides may differ. Out may be Gate or Up.
type SiLUMul struct {
	Gate kernels.Tensor
	Up   kernels.Tensor
	Out  kernels.Tensor
}

// Name implements kernels.Op.
func (o *SiLUMul) Name() string { return "silu_mul" }

// Check implements kernels.Op.
func (o *SiLUMul) Check() error { return check("gate", o.Gate, "up", o.Up, o.Out) }

// Reference implements kernels.Op.
func (o *SiLUMul) Reference() {
	siluMul.rows(o.Gate, o.Up, o.Out, 0, o.Out.Rows*blocksPerRow(o.Out))
}

// CPU implements kernels.Op.
func (o *SiLUMul) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *SiLUMul) CPURange(c *cpu.Context, _, _, from, to int) {
	siluMul.run(c.ISA, o.Gate, o.Up, o.Out, from, to)
}

func siluMulCases() []kernels.Case {
	return cases("silu_mul", 8e-7,
		"v_exp is within 2e-7 and four float32 roundings follow; the reference is float64",
		func(x, y, out kernels.Tensor) kernels.Op { return &SiLUMul{Gate: x, Up: y, Out: out} })
}

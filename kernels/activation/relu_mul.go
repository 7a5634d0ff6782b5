package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// ReLUMul computes out = max(gate, 0) * up, the product of a ReGLU feed-forward (Shazeer 2020, "GLU
// Variants Improve Transformer"). With the same tensor as Gate and Up it is the squared ReLU (So et
// al. 2021, "Primer").
//
// Gate, Up and Out are float32 [M, N], and their strides may differ. Out may be Gate or Up.
type ReLUMul struct {
	Gate kernels.Tensor
	Up   kernels.Tensor
	Out  kernels.Tensor
}

// Name implements kernels.Op.
func (o *ReLUMul) Name() string { return "relu_mul" }

// Check implements kernels.Op.
func (o *ReLUMul) Check() error { return check("gate", o.Gate, "up", o.Up, o.Out) }

// Reference implements kernels.Op.
func (o *ReLUMul) Reference() {
	reluMul.rows(o.Gate, o.Up, o.Out, 0, o.Out.Rows*blocksPerRow(o.Out))
}

// CPU implements kernels.Op.
func (o *ReLUMul) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *ReLUMul) CPURange(c *cpu.Context, _, _, from, to int) {
	reluMul.run(c.ISA, o.Gate, o.Up, o.Out, from, to)
}

func reluMulCases() []kernels.Case {
	return cases("relu_mul", 0, "", func(x, y, out kernels.Tensor) kernels.Op {
		return &ReLUMul{Gate: x, Up: y, Out: out}
	})
}

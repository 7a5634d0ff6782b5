package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Mul computes out = x * y.
//
// X, Y and Out are float32 [M, N], and their strides may differ. Out may be X or Y. Y may be one
// row for all rows of X (Tensor.Repeat).
type Mul struct {
	X   kernels.Tensor
	Y   kernels.Tensor
	Out kernels.Tensor
}

// Name implements kernels.Op.
func (o *Mul) Name() string { return "mul" }

// Check implements kernels.Op.
func (o *Mul) Check() error { return check("x", o.X, "y", o.Y, o.Out) }

// Reference implements kernels.Op.
func (o *Mul) Reference() { mul.rows(o.X, o.Y, o.Out, 0, o.Out.Rows*blocksPerRow(o.Out)) }

// CPU implements kernels.Op.
func (o *Mul) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *Mul) CPURange(c *cpu.Context, _, _, from, to int) {
	mul.run(c.ISA, o.X, o.Y, o.Out, from, to)
}

func mulCases() []kernels.Case {
	list := cases("mul", 0, "",
		func(x, y, out kernels.Tensor) kernels.Op { return &Mul{X: x, Y: y, Out: out} })
	return append(list, repeatedCases("mul", "row",
		func(x, y, out kernels.Tensor) kernels.Op { return &Mul{X: x, Y: y, Out: out} })...)
}

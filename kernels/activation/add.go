package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Add computes out = x + y.
//
// X, Y and Out are float32 [M, N], and their strides may differ. Out may be X or Y. Y may be a
// bias, one row for all rows of X (Tensor.Repeat).
type Add struct {
	X   kernels.Tensor
	Y   kernels.Tensor
	Out kernels.Tensor
}

// Name implements kernels.Op.
func (o *Add) Name() string { return "add" }

// Check implements kernels.Op.
func (o *Add) Check() error { return check("x", o.X, "y", o.Y, o.Out) }

// Reference implements kernels.Op.
func (o *Add) Reference() { add.rows(o.X, o.Y, o.Out, 0, o.Out.Rows*blocksPerRow(o.Out)) }

// CPU implements kernels.Op.
func (o *Add) CPU(c *cpu.Context) { parallel(c, o, o.Out) }

// CPURange implements cpu.Task.
func (o *Add) CPURange(c *cpu.Context, _, _, from, to int) {
	add.run(c.ISA, o.X, o.Y, o.Out, from, to)
}

func addCases() []kernels.Case {
	list := cases("add", 0, "",
		func(x, y, out kernels.Tensor) kernels.Op { return &Add{X: x, Y: y, Out: out} })
	return append(list, repeatedCases("add", "bias",
		func(x, y, out kernels.Tensor) kernels.Op { return &Add{X: x, Y: y, Out: out} })...)
}

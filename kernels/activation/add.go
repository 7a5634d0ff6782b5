package activation

import (
	"fmt"
	"math/rand/v2"

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
	for _, s := range [][2]int{{1, 2048}, {33, 1030}, {512, 4096}} {
		list = append(list, kernels.Case{
			Name:  fmt.Sprintf("add_f32_m%d_n%d_bias", s[0], s[1]),
			Bytes: int64(8*s[0]*s[1] + 4*s[1]),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				x := kernels.RandomTensor(d, r, s[0], s[1], 3)
				bias := kernels.RandomTensor(d, r, 1, s[1], 3)
				return &Add{X: x, Y: bias.Repeat(s[0]), Out: x}, []kernels.Tensor{x}
			},
		})
	}
	return list
}

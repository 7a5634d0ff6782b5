package nn

// Feed-forward parts without a gate: two projections and an activation between them.

import (
	"headroom/engine/ops"
	"headroom/kernels"
)

// PlainMLP computes down(activation(up(x))). The activation is the squared ReLU, or GELU in its
// tanh approximation if Ones, which is [1, I], is not none.
type PlainMLP struct {
	UpProj, DownProj Linear
	Ones             kernels.Tensor
}

// Forward computes the MLP of x [M, hidden] and returns [M, hidden].
func (l *PlainMLP) Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	x = l.UpProj.Forward(c, x)
	if l.Ones.IsNone() {
		return l.DownProj.Forward(c, c.SquareReLU(x))
	}
	return l.DownProj.Forward(c, c.GELUMul(x, l.Ones.Repeat(x.Rows)))
}

// PlainMoE is a mixture of experts without gates, and with the squared ReLU (Nemotron 3). Unless
// LatentIn.Weight is nil, the experts see a projection of x to fewer dimensions, and their sum is
// projected back. The shared expert, which may be nil, sees x.
type PlainMoE struct {
	Gate                *kernels.Weight // [E, hidden]
	UpProj, DownProj    *kernels.Weight // stacked experts: [E, I, in] and [E, in, I]
	LatentIn, LatentOut Linear
	SharedExpert        *PlainMLP
	ops.Routing
}

// Forward computes the mixture for x [M, hidden] and returns [M, hidden].
func (l *PlainMoE) Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	ids, weights := c.Route(c.Linear(x, l.Gate), l.Routing)
	in := x
	if l.LatentIn.Weight != nil {
		in = l.LatentIn.Forward(c, x)
	}
	y := c.Experts(c.SquareReLU(c.Experts(in, ids, l.UpProj)), ids, l.DownProj)
	var shared kernels.Tensor
	if l.SharedExpert != nil {
		shared = l.SharedExpert.Forward(c, x)
	}
	if l.LatentOut.Weight == nil {
		return c.Combine(y, weights, shared, kernels.Tensor{})
	}
	y = l.LatentOut.Forward(c, c.Combine(y, weights, kernels.Tensor{}, kernels.Tensor{}))
	if shared.IsNone() {
		return y
	}
	return c.Add(y, shared)
}

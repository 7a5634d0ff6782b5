package models

// The rotation of neighbours: some architectures rotate each dimension of a head with the next one.
// The kernels rotate the dimensions of the first half of the rotated part with those of the second.
// A score is a sum over the dimensions of a head, so the order of these does not matter as long as
// queries and keys have the same. So the rows of q_proj and k_proj are moved when they are loaded,
// and with them their biases and norms.

import (
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/kernels"
)

// headOrder is an order of the dimensions of a head, of which the first rotated ones are moved. The
// zero value moves nothing.
type headOrder struct{ dim, rotated int }

// order returns the order of the dimensions in which the rope of o is that of the kernels.
func (o *attentionOptions) order(headDim int) headOrder {
	if !o.neighbours || o.rope.InvFreq.IsNone() {
		return headOrder{}
	}
	return headOrder{dim: headDim, rotated: 2 * o.rope.InvFreq.Cols}
}

// from returns where the row i of some heads is in the checkpoint.
func (h headOrder) from(i int) int {
	first, d := i-i%h.dim, i%h.dim
	switch half := h.rotated / 2; {
	case d < half:
		return first + 2*d
	case d < h.rotated:
		return first + 2*(d-half) + 1
	}
	return i
}

// linear is loadLinear for a projection to heads.
func (h headOrder) linear(s checkpoint.Scope, name string, n, k int, bias bool) nn.Linear {
	if h.rotated == 0 {
		return loadLinear(s, name, n, k, bias)
	}
	l := nn.Linear{Weight: s.Pick(s.View(name, n, k), n, h.from)}
	if bias {
		l.Bias = h.vector(s.Vector(name+".bias", n, 0))
	}
	return l
}

// vector moves the elements of t [1, n], which is not a view of the checkpoint, and returns t.
func (h headOrder) vector(t kernels.Tensor) kernels.Tensor {
	if h.rotated == 0 || t.IsNone() || t.Buffer.Bytes == nil {
		return t
	}
	values := t.Float32s()
	before := append([]float32(nil), values...)
	for i := range values {
		values[i] = before[h.from(i)]
	}
	return t
}

package ops

// Products with weights. A weight whose columns are in another order than the inputs gets them in
// that order (kernels.Weight.Order).

import (
	"headroom/kernels"
	"headroom/kernels/embedding"
	"headroom/kernels/matmul"
)

// Logits returns x[indices] wᵀ. It uses the decode kernels, even for prompt rows.
func (c *Context) Logits(x kernels.Tensor, indices []int32, w *kernels.Weight) kernels.Tensor {
	rows := c.Rows(x, indices)
	out := c.Project(rows, w)
	c.adaptLogits(out, rows, indices, w)
	return out
}

// Project returns x wᵀ for rows that are not tokens of the batch. It uses the decode kernels.
func (c *Context) Project(x kernels.Tensor, w *kernels.Weight) kernels.Tensor {
	var out [1]kernels.Tensor
	c.linear(x, nil, []*kernels.Weight{w}, out[:])
	return out[0]
}

// Linear returns x wᵀ. In this method and those below, x has a row for each token of the batch.
func (c *Context) Linear(x kernels.Tensor, w *kernels.Weight) kernels.Tensor {
	var out [1]kernels.Tensor
	c.batchLinear(x, []*kernels.Weight{w}, out[:])
	return out[0]
}

// Linear2 returns x w1ᵀ and x w2ᵀ, computed in one pass over x.
func (c *Context) Linear2(x kernels.Tensor, w1, w2 *kernels.Weight) (_, _ kernels.Tensor) {
	var out [2]kernels.Tensor
	c.batchLinear(x, []*kernels.Weight{w1, w2}, out[:])
	return out[0], out[1]
}

// Linear3 returns the products of x with three weights, like Linear2.
func (c *Context) Linear3(x kernels.Tensor, w1, w2, w3 *kernels.Weight) (_, _, _ kernels.Tensor) {
	var out [3]kernels.Tensor
	c.batchLinear(x, []*kernels.Weight{w1, w2, w3}, out[:])
	return out[0], out[1], out[2]
}

// Linear4 returns the products of x with four weights, like Linear2.
func (c *Context) Linear4(x kernels.Tensor,
	w1, w2, w3, w4 *kernels.Weight) (_, _, _, _ kernels.Tensor) {
	var out [4]kernels.Tensor
	c.batchLinear(x, []*kernels.Weight{w1, w2, w3, w4}, out[:])
	return out[0], out[1], out[2], out[3]
}

// batchLinear computes products for the rows of the batch, with what their adapters add.
func (c *Context) batchLinear(x kernels.Tensor, weights []*kernels.Weight, out []kernels.Tensor) {
	c.linear(x, c.prefill, weights, out)
	for i, w := range weights {
		c.adapt(out[i], x, kernels.Tensor{}, w)
	}
}

func (c *Context) linear(x kernels.Tensor, prefill matmul.Prefill, weights []*kernels.Weight,
	out []kernels.Tensor) {
	op := &c.ops.linear
	for i, w := range weights {
		out[i] = c.f32(x.Rows, w.N)
	}
	for i := 0; i < len(weights); {
		mark, in, n := c.Mark(), c.inOrder(x, weights[i]), 0
		for ; i < len(weights) && weights[i].Order == weights[i-n].Order; i++ {
			op.parts[n] = matmul.Part{W: weights[i], Out: out[i]}
			n++
		}
		op.Linear = matmul.Linear{X: in, Parts: op.parts[:n], Prefill: prefill, Split: c.Split}
		c.Device.Run(&op.Linear)
		c.Release(mark)
	}
}

// inOrder returns x [M, K] with its columns in the order of w.
func (c *Context) inOrder(x kernels.Tensor, w *kernels.Weight) kernels.Tensor {
	if w.Order.IsNone() {
		return x
	}
	out := c.f32(x.Rows, x.Cols)
	run(c, &c.ops.columns, embedding.Columns{X: x, Order: w.Order, Out: out})
	return out
}

// Experts returns x w[id]ᵀ [M*k, N] for each of the k experts of every row. ids is I32 [M, k]. x
// has a row for each token (M rows) or for each pair of token and expert (M*k rows).
func (c *Context) Experts(x, ids kernels.Tensor, w *kernels.Weight) kernels.Tensor {
	var out [1]kernels.Tensor
	c.experts(x, ids, []*kernels.Weight{w}, out[:])
	return out[0]
}

// Experts2 returns the products of x with the experts of two weights, computed in one pass over x.
func (c *Context) Experts2(x, ids kernels.Tensor, w1, w2 *kernels.Weight) (_, _ kernels.Tensor) {
	var out [2]kernels.Tensor
	c.experts(x, ids, []*kernels.Weight{w1, w2}, out[:])
	return out[0], out[1]
}

// HeadsTo writes the product of each head of x [M*heads, K] with its own matrix of w, a stack of
// heads matrices [N, K], to out [M*heads, N]. Both may be views. ids is I32 [1, heads]: 0, 1, 2
// and so on.
func (c *Context) HeadsTo(out, x, ids kernels.Tensor, w *kernels.Weight) {
	op := &c.ops.experts
	mark := c.Mark()
	op.parts[0] = matmul.Part{W: w, Out: out}
	op.Experts = matmul.Experts{X: c.inOrder(x, w), IDs: ids.Repeat(x.Rows / w.Experts),
		Parts: op.parts[:1], Prefill: c.prefill}
	c.Device.Run(&op.Experts)
	c.Release(mark)
}

func (c *Context) experts(x, ids kernels.Tensor, weights []*kernels.Weight, out []kernels.Tensor) {
	op := &c.ops.experts
	for i, w := range weights {
		out[i] = c.f32(ids.Rows*ids.Cols, w.N)
		op.parts[i] = matmul.Part{W: w, Out: out[i]}
	}
	op.Experts = matmul.Experts{X: x, IDs: ids, Parts: op.parts[:len(weights)],
		Prefill: c.prefill}
	c.Device.Run(&op.Experts)
	for i, w := range weights {
		c.adapt(out[i], x, ids, w)
	}
}

// GateUp returns silu(x gateᵀ) * (x upᵀ), the first half of an MLP.
func (c *Context) GateUp(x kernels.Tensor, gate, up *kernels.Weight) kernels.Tensor {
	return c.gateUp(x, kernels.Tensor{}, x.Rows, gate, up)
}

// ExpertsGateUp computes GateUp for each of the k experts of every row, like Experts.
func (c *Context) ExpertsGateUp(x, ids kernels.Tensor, gate, up *kernels.Weight) kernels.Tensor {
	return c.gateUp(x, ids, ids.Rows*ids.Cols, gate, up)
}

func (c *Context) gateUp(x, ids kernels.Tensor, rows int, gate, up *kernels.Weight) kernels.Tensor {
	if gate.Order != up.Order { // experts have none
		g, u := c.Linear2(x, gate, up)
		return c.SiLUMul(g, u)
	}
	c.adapters.note(gate, x, ids)
	c.adapters.note(up, x, ids)
	out := c.f32(rows, gate.N)
	mark := c.Mark()
	if c.adapters.any(gate) || c.adapters.any(up) {
		c.adaptedGateUp(out, c.f32(rows, gate.N), x, ids, gate, up)
		c.Release(mark)
		return out
	}
	run(c, &c.ops.gateUp, matmul.GateUp{X: c.inOrder(x, gate), IDs: ids, Gate: gate, Up: up,
		Out: out, Temp: c.f32(rows, gate.N), Prefill: c.prefill, Split: c.Split})
	c.Release(mark)
	return out
}

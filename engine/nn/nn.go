// Package nn provides the modules that architectures are made of: attention, GatedDeltaNet, MLP and
// mixture of experts. A module is a struct of weights, named as in checkpoints, with a method
// Forward that computes the rows of a batch. The KV cache or recurrent state is an argument of
// Forward.
package nn

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Attention is grouped-query attention with rotary position embeddings. It uses the paged KV cache,
// or a ring of pages in layers with a window.
//
// QNorm and KNorm normalize each head before the rotation (Qwen3). They are zero tensors if a model
// does not have them. If OutputGate is true, q_proj computes a query and a gate of the same width
// for each head, and the output of the head is multiplied by the sigmoid of the gate (Qwen3.5).
type Attention struct {
	QProj, KProj, VProj, OProj *kernels.Weight
	QNorm, KNorm               kernels.Tensor // [1, D]
	InvFreq                    kernels.Tensor // [1, rotary dims / 2]
	Heads, KVHeads, HeadDim    int
	Scale                      float32 // multiplies the scores before softmax
	Eps                        float32 // of QNorm and KNorm
	OutputGate                 bool
}

// Forward computes attention for x [M, hidden] and returns [M, hidden]. It adds the keys and values
// of x to kv.
func (l *Attention) Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	kv cache.Layer) kernels.Tensor {
	m, h, d := x.Rows, l.Heads, l.HeadDim
	// q is [M, H*D], or with a gate [M, H*2D]; k and v are [M, KVH*D].
	q, k, v := c.Linear3(x, l.QProj, l.KProj, l.VProj)
	var gate kernels.Tensor
	if l.OutputGate {
		q = q.Reshape(m*h, 2*d)
		gate = q.Columns(d, 2*d)
		q = q.Columns(0, d)
	} else {
		q = q.Reshape(m*h, d)
	}
	q = c.NormRope(q, l.QNorm, l.InvFreq, b.Spans, h, l.Eps).Reshape(m, h*d)
	k = c.NormRope(k.Reshape(m*l.KVHeads, d), l.KNorm, l.InvFreq, b.Spans, l.KVHeads,
		l.Eps).Reshape(m, l.KVHeads*d)
	out := attend(c, b, q, k, v, kv, l.Scale)
	if l.OutputGate {
		out = c.SigmoidMul(out.Reshape(m*h, d), gate).Reshape(m, h*d)
	}
	return c.Linear(out, l.OProj)
}

// attend writes k and v to the cache of a layer and computes attention over it. If the layer has a
// ring, attend also makes the copies of the ring that b.Rounds lists, after all rows have been
// written. Such a copy is also valid for positions inside the pass (see cache/ring.go).
func attend(c *ops.Context, b *batch.Batch, q, k, v kernels.Tensor, kv cache.Layer,
	scale float32) kernels.Tensor {
	r := kv.Ring
	if r == nil {
		return c.Attention(q, k, v, kv.KV, b.Spans, scale, 0, 0)
	}
	out := c.Attention(q, k, v, kv.KV, r.Spans(b.Spans), scale, r.Window, r.SinkTokens)
	for i := range b.Rounds {
		for _, keep := range b.Rounds[i].Keeps {
			c.CopyPages(kv.KV, int(keep.From)*r.SlotPages, int(keep.To)*r.SlotPages, r.SlotPages)
		}
	}
	return out
}

// GatedDeltaNet is linear attention with a gated delta rule (Yang, Kautz and Hatamizadeh 2024). A
// short convolution over the tokens is applied to q, k and v first. Then each token decays, updates
// and reads a state of Dv x Dk values per head.
type GatedDeltaNet struct {
	InProjQKV, InProjZ, InProjB, InProjA, OutProj *kernels.Weight
	Conv1D                                        kernels.Tensor // [C, taps]
	ALog, DtBias                                  kernels.Tensor // [1, Hv]
	Norm                                          kernels.Tensor // [1, Dv]
	ops.DeltaShape
	Eps float32
}

// Forward computes linear attention for x [M, hidden] and returns [M, hidden]. It updates state,
// and copies the states that b.Rounds lists.
func (l *GatedDeltaNet) Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	state cache.Layer) kernels.Tensor {
	m := x.Rows
	qkv, z, beta, a := c.Linear4(x, l.InProjQKV, l.InProjZ, l.InProjB, l.InProjA)
	y := c.Temp(kernels.F32, m, l.Hv*l.Dv)
	for i := range b.Rounds {
		r := &b.Rounds[i]
		c.ConvGatedDeltaTo(y, qkv, l.Conv1D, state.Conv, a, beta, l.ALog, l.DtBias, state.State,
			r.Spans, l.DeltaShape)
		for _, k := range r.Keeps {
			c.CopyRow(state.Conv, k.From, k.To)
			c.CopyRow(state.State, k.From, k.To)
		}
	}
	y = c.GatedRMSNorm(y.Reshape(m*l.Hv, l.Dv), z.Reshape(m*l.Hv, l.Dv), l.Norm, l.Eps)
	return c.Linear(y.Reshape(m, l.Hv*l.Dv), l.OutProj)
}

// MLP computes down(silu(gate(x)) * up(x)). If GELU is true, gelu replaces silu.
type MLP struct {
	GateProj, UpProj, DownProj *kernels.Weight
	GELU                       bool
}

// Forward computes the MLP of x [M, hidden] and returns [M, hidden].
func (l *MLP) Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	if l.GELU {
		gate, up := c.Linear2(x, l.GateProj, l.UpProj)
		return c.Linear(c.GELUMul(gate, up), l.DownProj)
	}
	return c.Linear(c.GateUp(x, l.GateProj, l.UpProj), l.DownProj)
}

// MoE is a mixture of experts. For each row, the router Gate chooses TopK experts. Their outputs
// are multiplied by weights and added. The output of a shared expert is added too, multiplied by
// the sigmoid of SharedExpertGate. SharedExpert and SharedExpertGate may be nil.
type MoE struct {
	Gate             *kernels.Weight // [E, hidden]
	SwitchMLP        MLP             // stacked experts: [E, I, hidden] twice, and [E, hidden, I]
	SharedExpert     *MLP
	SharedExpertGate *kernels.Weight // [1, hidden]
	TopK             int
	NormTopKProb     bool // the weights of the TopK experts sum to 1
}

// Forward computes the mixture for x [M, hidden] and returns [M, hidden]. The device chooses the
// experts, so the host does not wait.
func (l *MoE) Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	var logits, shared, sharedGate kernels.Tensor
	if l.SharedExpertGate != nil {
		logits, sharedGate = c.Linear2(x, l.Gate, l.SharedExpertGate)
	} else {
		logits = c.Linear(x, l.Gate)
	}
	ids, weights := c.Route(logits, l.TopK, l.NormTopKProb)
	expert := c.Experts(c.ExpertsGateUp(x, ids, l.SwitchMLP.GateProj, l.SwitchMLP.UpProj), ids,
		l.SwitchMLP.DownProj)
	if l.SharedExpert != nil {
		shared = l.SharedExpert.Forward(c, x)
	}
	return c.Combine(expert, weights, shared, sharedGate)
}

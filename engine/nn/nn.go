// Package nn provides the modules that architectures are made of: attention, GatedDeltaNet,
// Mamba-2, short convolution, MLP and mixture of experts. A module is a struct of weights, named as
// in checkpoints, with a method Forward that computes the rows of a batch. The KV cache or
// recurrent state is an argument of Forward.
package nn

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Linear is a projection x Wᵀ + bias.
type Linear struct {
	Weight *kernels.Weight
	Bias   kernels.Tensor // [1, N], or none
}

// Forward computes the projection of x [M, K] and returns [M, N].
func (l *Linear) Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	return c.AddBias(c.Linear(x, l.Weight), l.Bias)
}

// Attention is grouped-query attention with rotary position embeddings. It uses the paged KV cache,
// or a ring of pages in layers with a window.
//
// QNorm and KNorm normalize queries and keys before the rotation, or each head after it if
// NormRotated is true (Hunyuan). With HeadDim columns they normalize each head (Qwen3), and with
// those of all heads the whole projection (OLMo 3). They are zero tensors if a model does not have
// them. If OutputGate is true, q_proj computes a query and a gate of the same width for each head,
// and the output of the head is multiplied by the sigmoid of the gate (Qwen3.5). GateProj, if it is
// not nil, computes that gate instead, for all heads (AFMoE, Muse Glimmer); it needs KProj and
// VProj. Sinks has a logit per head that only the denominator of the softmax counts (gpt-oss), or
// is the zero tensor. QueryScale multiplies the queries of a position (Ministral 3).
//
// Without the weight of VProj the values are the keys before their norm and rotation, and without
// that of KProj the layer attends to the keys and values of another layer (both Gemma 4). VNorm
// normalizes each head of the values, or is the zero tensor.
type Attention struct {
	QProj, KProj, VProj, OProj Linear
	GateProj                   *kernels.Weight // [H*D, hidden], or nil
	QNorm, KNorm               kernels.Tensor  // [1, D], [1, H*D] and [1, KVH*D], or none
	VNorm                      kernels.Tensor  // [1, D], or none
	Sinks                      kernels.Tensor  // [1, H], or none
	Rope                       ops.Rope
	QueryScale                 ops.PosScale
	Heads, KVHeads, HeadDim    int
	Scale                      float32 // multiplies the scores before softmax
	Cap                        float32 // limits the scaled scores (Gemma 2); 0 means none
	Eps                        float32 // of QNorm, KNorm and VNorm
	OutputGate, NormRotated    bool
	// Window is the number of positions that a row sees, including its own, in a layer whose memory
	// keeps all positions; 0: all.
	Window int
	// Bidirectional says that a token sees those that follow, too. FullWindow is then how many it
	// sees before and after itself; 0: all.
	Bidirectional bool
	FullWindow    int
}

// Forward computes attention for x [M, hidden] and returns [M, hidden]. It adds the keys and values
// of x to kv. If the layer has none, kv is the memory of the other layer, which has added its own.
func (l *Attention) Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	kv cache.Layer) kernels.Tensor {
	m, h, d := x.Rows, l.Heads, l.HeadDim
	q, k, v, gate := l.project(c, x)
	if l.OutputGate {
		q = q.Reshape(m*h, 2*d)
		gate = q.Columns(d, 2*d)
		q = q.Columns(0, d)
	} else {
		q = q.Reshape(m*h, d)
		if l.GateProj != nil {
			gate = gate.Reshape(m*h, d)
		}
	}
	queryRope := l.Rope
	queryRope.Pos = l.QueryScale
	q = l.normRope(c, b, q, l.QNorm, queryRope, h)
	if !v.IsNone() && !l.VNorm.IsNone() {
		v = c.RMSNorm(v.Reshape(m*l.KVHeads, d), l.VNorm, l.Eps).Reshape(m, l.KVHeads*d)
	}
	if !k.IsNone() {
		k = l.normRope(c, b, k.Reshape(m*l.KVHeads, d), l.KNorm, l.Rope, l.KVHeads)
	}
	out := l.attend(c, b, q, k, v, kv)
	if !gate.IsNone() {
		out = c.SigmoidMul(out.Reshape(m*h, d), gate).Reshape(m, h*d)
	}
	return l.OProj.Forward(c, out)
}

// Append adds the keys and values of x [M, hidden] to kv, which has no ring. It computes nothing
// else.
func (l *Attention) Append(c *ops.Context, b *batch.Batch, x kernels.Tensor, kv cache.Layer) {
	k, v := c.Linear2(x, l.KProj.Weight, l.VProj.Weight)
	c.AddBias(k, l.KProj.Bias)
	c.AddBias(v, l.VProj.Bias)
	k = l.normRope(c, b, k.Reshape(x.Rows*l.KVHeads, l.HeadDim), l.KNorm, l.Rope, l.KVHeads)
	c.Append(k, v, kv.KV, b.Spans)
}

// project returns q, which is [M, H*D] or with OutputGate [M, H*2D], k and v, which are [M, KVH*D]
// or, if the layer has none, zero tensors, and the output of GateProj.
func (l *Attention) project(c *ops.Context, x kernels.Tensor) (q, k, v, gate kernels.Tensor) {
	switch {
	case l.KProj.Weight == nil:
		q = c.Linear(x, l.QProj.Weight)
	case l.VProj.Weight == nil:
		q, k = c.Linear2(x, l.QProj.Weight, l.KProj.Weight)
		v = k
	case l.GateProj != nil:
		q, k, v, gate = c.Linear4(x, l.QProj.Weight, l.KProj.Weight, l.VProj.Weight, l.GateProj)
	default:
		q, k, v = c.Linear3(x, l.QProj.Weight, l.KProj.Weight, l.VProj.Weight)
	}
	c.AddBias(q, l.QProj.Bias)
	c.AddBias(k, l.KProj.Bias)
	c.AddBias(v, l.VProj.Bias)
	return q, k, v, gate
}

// normRope normalizes and rotates the heads of x [M*heads, D], and returns [M, heads*D].
func (l *Attention) normRope(c *ops.Context, b *batch.Batch, x, norm kernels.Tensor,
	r ops.Rope, heads int) kernels.Tensor {
	rows, cols := x.Rows/heads, heads*l.HeadDim
	if l.NormRotated && !norm.IsNone() {
		x = c.NormRope(x, kernels.Tensor{}, r, b.Spans, heads, l.Eps)
		return c.RMSNorm(x, norm, l.Eps).Reshape(rows, cols)
	}
	if norm.Cols == cols && heads > 1 {
		x = c.RMSNorm(x.Reshape(rows, cols), norm, l.Eps).Reshape(rows*heads, l.HeadDim)
		norm = kernels.Tensor{}
	}
	return c.NormRope(x, norm, r, b.Spans, heads, l.Eps).Reshape(rows, cols)
}

// attend writes k and v, if there are any, to the cache of a layer and computes attention over it.
// If the cache is a ring, the layer that writes it also makes the copies of the ring that b.Rounds
// lists, after all rows have been written. Such a copy is also valid for positions inside the pass
// (see cache/ring.go).
func (l *Attention) attend(c *ops.Context, b *batch.Batch, q, k, v kernels.Tensor,
	kv cache.Layer) kernels.Tensor {
	if l.Bidirectional {
		return c.FullAttention(q, k, v, kv.KV, b.Spans, l.Scale, l.Cap, l.FullWindow)
	}
	r := kv.Ring
	if r == nil {
		return l.attendAll(c, b, q, k, v, kv)
	}
	out := c.Attention(q, k, v, kv.KV, r.Spans(b.Spans), l.Scale, l.Cap, l.Sinks, r.Window,
		r.SinkTokens)
	for i := 0; i < len(b.Rounds) && !k.IsNone(); i++ {
		for _, keep := range b.Rounds[i].Keeps {
			c.CopyPages(kv.KV, int(keep.From)*r.SlotPages, int(keep.To)*r.SlotPages, r.SlotPages)
		}
	}
	return out
}

// attendAll is attend for a cache that keeps all positions. At the end of a prompt, the queries may
// select the positions to which later rows attend. A layer that attends to the keys of another has
// the selection of that.
func (l *Attention) attendAll(c *ops.Context, b *batch.Batch, q, k, v kernels.Tensor,
	kv cache.Layer) kernels.Tensor {
	if !k.IsNone() {
		c.Append(k, v, kv.KV, b.Spans)
		for i := range b.Spans {
			if b.Spans[i].Selects() {
				c.Select(q, kv.KV, b.Spans[i], l.Scale, l.Cap)
			}
		}
	}
	return c.Attention(q, kernels.Tensor{}, kernels.Tensor{}, kv.KV, b.Attended(), l.Scale, l.Cap,
		l.Sinks, l.Window, 0)
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
// and keeps the states that b.Rounds lists.
func (l *GatedDeltaNet) Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	state cache.Layer) kernels.Tensor {
	m := x.Rows
	qkv, z, beta, a := c.Linear4(x, l.InProjQKV, l.InProjZ, l.InProjB, l.InProjA)
	y := c.Temp(kernels.F32, m, l.Hv*l.Dv)
	c.ConvGatedDeltaTo(y, qkv, l.Conv1D, state.Conv, a, beta, l.ALog, l.DtBias, state.State,
		b.Spans, b.Rounds, l.DeltaShape)
	y = c.GatedRMSNorm(y.Reshape(m*l.Hv, l.Dv), z.Reshape(m*l.Hv, l.Dv), l.Norm, l.Eps)
	return c.Linear(y.Reshape(m, l.Hv*l.Dv), l.OutProj)
}

// Mamba2 is the mixer of Mamba-2 (Dao and Gu 2024). InProj computes three parts of a token: a gate,
// the input of a short convolution, and dt of each head. The convolution gives x, B and C, with
// which each token decays, updates and reads a state of Dim x N values per head.
type Mamba2 struct {
	InProj, OutProj Linear
	Conv1D          kernels.Tensor // [C, taps]
	ConvBias        kernels.Tensor // [1, C], or none
	ALog, DtBias, D kernels.Tensor // [1, Heads]
	Norm            kernels.Tensor // [1, Heads*Dim], or none
	// Ones, if it is not none, says that each group of its width is normalized by itself (Nemotron
	// 3): ones [1, Heads*Dim/groups].
	Ones    kernels.Tensor
	InScale kernels.Tensor // [1, N], multiplies the output of InProj (Falcon-H1), or none
	ops.SSMShape
	Eps float32
}

// Forward computes the mixer for x [M, hidden] and returns [M, hidden]. It updates state, and
// keeps the states that b.Rounds lists. The gate is before the norm, which is over all heads.
func (l *Mamba2) Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	state cache.Layer) kernels.Tensor {
	m, inner, channels := x.Rows, l.Heads*l.Dim, l.Conv1D.Rows
	parts := l.InProj.Forward(c, x)
	if !l.InScale.IsNone() {
		c.MulTo(parts, parts, l.InScale)
	}
	gate, in := parts.Columns(0, inner), parts.Columns(inner, inner+channels)
	dt := parts.Columns(inner+channels, inner+channels+l.Heads)
	y := c.Temp(kernels.F32, m, inner)
	c.ConvSSMTo(y, in, l.Conv1D, l.ConvBias, state.Conv, dt, l.ALog, l.DtBias, l.D,
		state.State, b.Spans, b.Rounds, l.SSMShape)
	return l.OutProj.Forward(c, l.normalize(c, c.SiLUMul(gate, y)))
}

// normalize normalizes y [M, Heads*Dim], all of a row or each group of it.
func (l *Mamba2) normalize(c *ops.Context, y kernels.Tensor) kernels.Tensor {
	switch {
	case l.Norm.IsNone():
		return y
	case l.Ones.IsNone():
		return c.RMSNorm(y, l.Norm, l.Eps)
	}
	groups := y.Cols / l.Ones.Cols
	y = c.RMSNorm(y.Reshape(y.Rows*groups, l.Ones.Cols), l.Ones, l.Eps).Reshape(y.Rows, y.Cols)
	c.MulTo(y, y, l.Norm)
	return y
}

// ShortConv is the gated short convolution of LFM2. InProj computes three parts of a token, b, c
// and x. The convolution along the tokens is applied to b * x, and its output is multiplied by c.
type ShortConv struct {
	InProj, OutProj Linear
	Conv            kernels.Tensor // [hidden, taps]
	ConvBias        kernels.Tensor // [1, hidden], or none
}

// Forward computes the convolution for x [M, hidden] and returns [M, hidden]. It updates state, and
// keeps the states that b.Rounds lists.
func (l *ShortConv) Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	state cache.Layer) kernels.Tensor {
	m, n := x.Rows, l.Conv.Rows
	parts := l.InProj.Forward(c, x)
	in, y := c.Temp(kernels.F32, m, n), c.Temp(kernels.F32, m, n)
	c.MulTo(in, parts.Columns(0, n), parts.Columns(2*n, 3*n))
	c.ConvTo(y, in, l.Conv, state.Conv, b.Spans, b.Rounds)
	c.AddBias(y, l.ConvBias)
	c.MulTo(y, y, parts.Columns(n, 2*n))
	return l.OutProj.Forward(c, y)
}

// MLP computes down(silu(gate(x)) * up(x)). If GELU is true, gelu replaces silu.
type MLP struct {
	GateProj, UpProj, DownProj Linear
	GELU                       bool
}

// Forward computes the MLP of x [M, hidden] and returns [M, hidden].
func (l *MLP) Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	if !l.GELU && l.GateProj.Bias.IsNone() && l.UpProj.Bias.IsNone() {
		return l.DownProj.Forward(c, c.GateUp(x, l.GateProj.Weight, l.UpProj.Weight))
	}
	gate, up := c.Linear2(x, l.GateProj.Weight, l.UpProj.Weight)
	c.AddBias(gate, l.GateProj.Bias)
	c.AddBias(up, l.UpProj.Bias)
	if l.GELU {
		return l.DownProj.Forward(c, c.GELUMul(gate, up))
	}
	return l.DownProj.Forward(c, c.SiLUMul(gate, up))
}

// MoE is a mixture of experts. For each row, the router Gate chooses TopK experts. Their outputs
// are multiplied by weights and added. The output of a shared expert is added too, multiplied by
// the sigmoid of SharedExpertGate. SharedExpert and SharedExpertGate may be nil.
type MoE struct {
	Gate             *kernels.Weight // [E, hidden]
	SwitchMLP        MLP             // stacked experts: [E, I, hidden] twice, and [E, hidden, I]
	SharedExpert     *MLP
	SharedExpertGate *kernels.Weight // [1, hidden]
	ops.Routing
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
	if l.SharedExpert != nil { // first: on a GPU it runs beside the router
		shared = l.SharedExpert.Forward(c, x)
	}
	ids, weights := c.Route(logits, l.Routing)
	expert := c.Experts(c.ExpertsGateUp(x, ids, l.SwitchMLP.GateProj.Weight,
		l.SwitchMLP.UpProj.Weight), ids, l.SwitchMLP.DownProj.Weight)
	return c.Combine(expert, weights, shared, sharedGate)
}

// ClampedMoE is the mixture of experts of gpt-oss. All its projections have biases, and the
// activation is moe.ClampedSwiGLU. The weights of the TopK experts are the softmax over their
// logits alone.
type ClampedMoE struct {
	Router                     Linear
	GateProj, UpProj, DownProj Linear // stacked experts; biases [E, I], [E, I] and [E, hidden]
	TopK                       int
	Limit, Alpha               float32
}

// Forward computes the mixture for x [M, hidden] and returns [M, hidden].
func (l *ClampedMoE) Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	ids, weights := c.Route(l.Router.Forward(c, x), ops.Routing{TopK: l.TopK, Normalize: true})
	gate, up := c.Experts2(x, ids, l.GateProj.Weight, l.UpProj.Weight)
	y := c.ClampedSwiGLU(gate, up, ids, l.GateProj.Bias, l.UpProj.Bias, l.Limit, l.Alpha)
	return c.CombineBiased(c.Experts(y, ids, l.DownProj.Weight), weights, l.DownProj.Bias, ids)
}

// RoutedExperts is the mixture of experts of Gemma 4, which stands beside an MLP. The router
// normalizes its input itself. The weights of the TopK experts are the softmax over their logits
// alone, times ExpertScale. The experts have the activation GELU.
type RoutedExperts struct {
	Router      *kernels.Weight // [E, hidden]
	RouterNorm  kernels.Tensor  // [1, hidden]
	ExpertScale kernels.Tensor  // [1, E]
	Experts     MLP             // stacked: [E, I, hidden] twice, and [E, hidden, I]
	TopK        int
	Eps         float32 // of RouterNorm
}

// Forward computes the mixture for x [M, hidden] and returns [M, hidden]. The router reads h, of
// which x is another normalization.
func (l *RoutedExperts) Forward(c *ops.Context, h, x kernels.Tensor) kernels.Tensor {
	logits := c.Linear(c.RMSNorm(h, l.RouterNorm, l.Eps), l.Router)
	ids, weights := c.Route(logits,
		ops.Routing{TopK: l.TopK, Normalize: true, Scale: l.ExpertScale})
	gate, up := c.Experts2(x, ids, l.Experts.GateProj.Weight, l.Experts.UpProj.Weight)
	y := c.Experts(c.GELUMul(gate, up), ids, l.Experts.DownProj.Weight)
	return c.Combine(y, weights, kernels.Tensor{}, kernels.Tensor{})
}

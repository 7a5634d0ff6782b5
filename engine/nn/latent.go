package nn

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/ops"
	"headroom/kernels"
)

// LatentAttention is multi-head latent attention in its absorbed form (DeepSeek-AI 2024,
// "DeepSeek-V2"). The cache holds one vector for each token: a latent of Rank elements, from which
// keys and values of all heads could be computed, and a rotated key of RopeDim elements. Instead,
// EmbedQ takes the query of a head to the space of the latents, and UnembedOut takes the weighted
// sum of latents to the values of the head. So all heads attend to the same vectors, and the latent
// is both key and value.
//
// A query has NopeDim elements that are not rotated, and then RopeDim elements that are. QBProj
// computes them from the norm of QAProj, or from the input if QAProj has no weight.
type LatentAttention struct {
	QAProj, QBProj, KVAProj, OProj Linear
	QANorm                         kernels.Tensor  // [1, N of QAProj], or none
	KVANorm                        kernels.Tensor  // [1, Rank]
	EmbedQ                         *kernels.Weight // [Heads, Rank, NopeDim]
	UnembedOut                     *kernels.Weight // [Heads, N, Rank]
	HeadIDs                        kernels.Tensor  // I32 [1, Heads]: 0, 1, 2, ...
	Rope                           ops.Rope
	Heads, NopeDim, RopeDim, Rank  int
	Scale                          float32 // multiplies the scores before softmax
	Eps                            float32 // of QANorm and KVANorm
}

// Forward computes attention for x [M, hidden] and returns [M, hidden]. It adds the latents and
// rotated keys of x to kv.
func (l *LatentAttention) Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	kv cache.Layer) kernels.Tensor {
	m, rank, width := x.Rows, l.Rank, l.Rank+l.RopeDim
	q, latent := l.project(c, x)
	key := l.key(c, b, latent)

	q = q.Reshape(m*l.Heads, l.NopeDim+l.RopeDim)
	query := c.Temp(kernels.F32, m*l.Heads, width)
	c.HeadsTo(query.Columns(0, rank), q.Columns(0, l.NopeDim), l.HeadIDs, l.EmbedQ)
	c.RopeTo(query.Columns(rank, width), q.Columns(l.NopeDim, q.Cols), l.Rope, b.Spans, l.Heads)

	heads := Attention{Scale: l.Scale}
	sums := heads.attend(c, b, query.Reshape(m, l.Heads*width), key, kernels.Tensor{}, kv)
	out := c.Temp(kernels.F32, m*l.Heads, l.UnembedOut.N)
	c.HeadsTo(out, sums.Reshape(m*l.Heads, rank), l.HeadIDs, l.UnembedOut)
	return l.OProj.Forward(c, out.Reshape(m, l.Heads*l.UnembedOut.N))
}

// Append adds the latents and rotated keys of x [M, hidden] to kv. It computes nothing else.
func (l *LatentAttention) Append(c *ops.Context, b *batch.Batch, x kernels.Tensor,
	kv cache.Layer) {
	c.Append(l.key(c, b, l.KVAProj.Forward(c, x)), kernels.Tensor{}, kv.KV, b.Spans)
}

// key returns what the cache holds of each row [M, Rank+RopeDim]. latent is that of project.
func (l *LatentAttention) key(c *ops.Context, b *batch.Batch,
	latent kernels.Tensor) kernels.Tensor {
	rank, width := l.Rank, l.Rank+l.RopeDim
	key := c.Temp(kernels.F32, latent.Rows, width)
	c.RMSNormTo(key.Columns(0, rank), latent.Columns(0, rank), l.KVANorm, l.Eps)
	c.RopeTo(key.Columns(rank, width), latent.Columns(rank, width), l.Rope, b.Spans, 1)
	return key
}

// project returns the queries [M, Heads*(NopeDim+RopeDim)], and the latent and key of each row
// [M, Rank+RopeDim], neither normalized nor rotated.
func (l *LatentAttention) project(c *ops.Context, x kernels.Tensor) (q, latent kernels.Tensor) {
	if l.QAProj.Weight == nil {
		q, latent = c.Linear2(x, l.QBProj.Weight, l.KVAProj.Weight)
		c.AddBias(latent, l.KVAProj.Bias)
		return q, latent
	}
	q, latent = c.Linear2(x, l.QAProj.Weight, l.KVAProj.Weight)
	c.AddBias(q, l.QAProj.Bias)
	c.AddBias(latent, l.KVAProj.Bias)
	return l.QBProj.Forward(c, c.RMSNorm(q, l.QANorm, l.Eps)), latent
}

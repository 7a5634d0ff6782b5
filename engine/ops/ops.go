// Package ops provides the operators that layers are made of, for every device. Operators take and
// return tensors. Results are in the arena of the Context and valid until Release. When a device
// runs an operator, it checks the shapes and panics if they do not match.
package ops

import (
	"fmt"
	"math"
	"sync/atomic"

	"headroom/kernels"
	"headroom/kernels/activation"
	"headroom/kernels/attention"
	"headroom/kernels/embedding"
	"headroom/kernels/matmul"
	"headroom/kernels/moe"
	"headroom/kernels/norm"
	"headroom/kernels/recurrent"
	"headroom/kernels/rope"
	"headroom/kernels/sampling"
	"headroom/kernels/transfer"
)

// Context runs operators on a device. It has an arena for the activations of one forward pass. It
// is not safe for concurrent use.
type Context struct {
	Device kernels.Device
	// Split is matmul.Linear.Split of all products.
	Split bool
	// Stop ends a pass early when it becomes true: a model then returns after its current layer,
	// and what it returns is of no use. nil: nothing does.
	Stop *atomic.Bool

	arena   []*kernels.Buffer // of longest bytes each, apart from the last one
	longest int
	size    int // of the arena
	used    int
	peak    int
	largest int // of all tensors
	ops     operators

	prefill  matmul.Prefill // the prompt rows of the current batch; see SetPrefill
	adapters adapters       // what they add to products; see adapter.go
}

// alignBytes is the alignment of tensors in the arena. It suffices for cache lines and for offsets
// in GPU buffers.
const alignBytes = 128

// NewContext returns a context with an arena of arenaBytes. The arena has several buffers if the
// device has none that is longer than longest bytes; 0 means no limit. On a device that allocates
// nothing (kernels.NewDryRun) the arena grows without a limit. PeakBytes then returns the size that
// a pass needs with buffers of that length.
func NewContext(d kernels.Device, arenaBytes, longest int) *Context {
	if longest <= 0 {
		longest = math.MaxInt
	}
	c := &Context{Device: d, longest: longest &^ (alignBytes - 1), size: arenaBytes}
	for arenaBytes > c.longest {
		c.arena = append(c.arena, d.NewBuffer(c.longest))
		arenaBytes -= c.longest
	}
	c.arena = append(c.arena, d.NewBuffer(arenaBytes))
	return c
}

// PeakBytes returns the maximum number of bytes of the arena that were in use at once, including
// the ends of buffers in which the next tensor did not fit.
func (c *Context) PeakBytes() int { return c.peak }

// LargestBytes returns the size of the largest tensor that was in the arena.
func (c *Context) LargestBytes() int { return c.largest }

// FreeBytes returns the number of bytes of the arena that a few tensors can certainly use.
func (c *Context) FreeBytes() int {
	end := c.size
	if len(c.arena) > 1 {
		end = min(end, (c.used/c.longest+1)*c.longest)
	}
	return max(0, end-c.used-8*alignBytes)
}

// Temp allocates a contiguous tensor in one buffer of the arena. Its elements are not initialized.
// It panics if the arena is full.
//
// A tensor that does not fit into the rest of a buffer begins the next one. If every tensor of a
// pass is at most as large as that of another pass, none ends later in the arena. So an arena that
// suffices for the largest pass suffices for all.
func (c *Context) Temp(dtype kernels.DType, rows, cols int) kernels.Tensor {
	bytes := (rows*cols*dtype.Size() + alignBytes - 1) &^ (alignBytes - 1)
	if at := c.used % c.longest; at > 0 && bytes > c.longest-at {
		c.used += c.longest - at
	}
	t := kernels.Tensor{Buffer: c.arena[0], Offset: c.used, DType: dtype, Rows: rows, Cols: cols,
		Stride: cols}
	if i := c.used / c.longest; i > 0 && i < len(c.arena) {
		t.Buffer, t.Offset = c.arena[i], c.used%c.longest
	}
	c.used += bytes
	c.peak, c.largest = max(c.peak, c.used), max(c.largest, bytes)
	if c.used > c.size {
		if c.arena[0].Bytes != nil {
			panic(fmt.Sprintf("ops: arena of %d bytes is full: the runner must measure it with "+
				"its largest batch", c.size))
		}
		c.size, c.arena[0].Size = c.used, c.used
	}
	return t
}

// SetPrefill sets the spans of the batch for the following operators. Matrix products may use other
// kernels for the prompt rows of these spans. Rows of spans with an adapter are computed with it.
func (c *Context) SetPrefill(spans []kernels.Span) {
	c.prefill = c.prefill[:0].Of(spans)
	c.adapters.setSpans(spans)
}

// Stopped reports whether the pass shall end early.
func (c *Context) Stopped() bool { return c.Stop != nil && c.Stop.Load() }

// Mark returns the current position in the arena, for Release.
func (c *Context) Mark() int { return c.used }

// Release frees all tensors that were allocated since Mark returned mark.
func (c *Context) Release(mark int) { c.used = mark }

func (c *Context) f32(rows, cols int) kernels.Tensor { return c.Temp(kernels.F32, rows, cols) }

// operators has one operator of each kind, which is reused for every run, so that a pass allocates
// nothing on the Go heap. A device no longer uses an operator when Run has returned.
type operators struct {
	lookup     embedding.Lookup
	rows       embedding.Rows
	columns    embedding.Columns
	rmsNorm    norm.RMSNorm
	layerNorm  norm.LayerNorm
	gatedNorm  norm.GatedRMSNorm
	normRope   rope.NormRope
	geluMul    activation.GELUMul
	geluErfMul activation.GELUErfMul
	siluMul    activation.SiLUMul
	reluMul    activation.ReLUMul
	sigmoidMul activation.SigmoidMul
	add        activation.Add
	mul        activation.Mul
	softCap    activation.SoftCap
	append     attention.Append
	attention  attention.Attention
	selects    attention.Select
	conv       recurrent.Conv
	delta      recurrent.ConvGatedDelta
	ssm        recurrent.SSM
	route      moe.Route
	clamped    moe.ClampedSwiGLU
	combine    moe.Combine
	copy       transfer.Copy
	feed       sampling.Feed
	adjust     sampling.Adjust
	choose     sampling.Choose
	likeliest  sampling.Likeliest
	linear     linear
	shortlist  shortlist
	experts    experts
	gateUp     matmul.GateUp
}

// run stores op at the given address and runs it there.
func run[T any, P interface {
	*T
	kernels.Op
}](c *Context, at *T, op T) {
	*at = op
	c.Device.Run(P(at))
}

// linear and experts contain the arrays of their parts, so that no call allocates a slice.
type linear struct {
	matmul.Linear
	parts [4]matmul.Part
}

type experts struct {
	matmul.Experts
	parts [2]matmul.Part
}

// Embed returns the rows of w [V, H] at the indices tokens (I32 [M, 1]).
func (c *Context) Embed(tokens kernels.Tensor, w *kernels.Weight) kernels.Tensor {
	return c.ScaledEmbed(tokens, w, 1)
}

// ScaledEmbed returns the result of Embed multiplied by scale.
func (c *Context) ScaledEmbed(tokens kernels.Tensor, w *kernels.Weight,
	scale float32) kernels.Tensor {
	out := c.f32(tokens.Rows, w.K)
	run(c, &c.ops.lookup, embedding.Lookup{Tokens: tokens, W: w, Out: out, Scale: scale})
	c.adaptLookup(out, tokens, w, scale)
	return out
}

// Feed writes tokens to out (I32 [M, 1]). A token less than 0 is a placeholder for a row of chosen,
// which is I32 [N, 1] or the zero tensor; see sampling.Feed.
func (c *Context) Feed(out kernels.Tensor, tokens []int32, chosen kernels.Tensor) {
	run(c, &c.ops.feed, sampling.Feed{Tokens: tokens, Chosen: chosen, Out: out})
}

// Choose samples a token for each row of logits [M, V] and writes it to out (I32 [M, 1]). Before
// that it applies adjustments to logits, unless adjustments is nil. Adjustments may refer to tokens
// in chosen.
func (c *Context) Choose(out, logits kernels.Tensor, rows []sampling.Settings,
	adjustments []sampling.Adjustment, chosen kernels.Tensor) {
	if adjustments != nil {
		run(c, &c.ops.adjust, sampling.Adjust{Logits: logits, Rows: adjustments, Chosen: chosen})
	}
	run(c, &c.ops.choose, sampling.Choose{Logits: logits, Rows: rows, Out: out})
}

// LikeliestCols is the number of columns of the result of Likeliest.
const LikeliestCols = sampling.LikeliestCols

// MostLikely returns the token of a row of the result of Likeliest and its probability.
func MostLikely(row []int32) (token int32, probability float64) { return sampling.MostLikely(row) }

// Likeliest writes the most likely token of each row of logits [M, V] and its probability to out
// (I32 [M, LikeliestCols]). The host reads them by MostLikely.
func (c *Context) Likeliest(out, logits kernels.Tensor) {
	run(c, &c.ops.likeliest, sampling.Likeliest{Logits: logits, Out: out})
}

// Rows returns a copy of the rows of x at indices.
func (c *Context) Rows(x kernels.Tensor, indices []int32) kernels.Tensor {
	out := c.f32(len(indices), x.Cols)
	run(c, &c.ops.rows, embedding.Rows{X: x, Indices: indices, Out: out})
	return out
}

// MoveRows copies the rows of x at indices to those of out at targets, which differ.
func (c *Context) MoveRows(out, x kernels.Tensor, indices, targets []int32) {
	if len(indices) > 0 {
		run(c, &c.ops.rows,
			embedding.Rows{X: x, Indices: indices, Targets: targets, Out: out})
	}
}

// RMSNorm returns the rows of x [M, H], normalized and multiplied by weight [1, H].
func (c *Context) RMSNorm(x, weight kernels.Tensor, eps float32) kernels.Tensor {
	out := c.f32(x.Rows, x.Cols)
	c.RMSNormTo(out, x, weight, eps)
	return out
}

// RMSNormTo writes the result of RMSNorm to out, which may be a view.
func (c *Context) RMSNormTo(out, x, weight kernels.Tensor, eps float32) {
	run(c, &c.ops.rmsNorm, norm.RMSNorm{X: x, Weight: weight, Out: out, Eps: eps})
}

// AddRMSNorm adds x to residual in place, and returns the RMSNorm of the sum. If weight is the zero
// tensor, it returns residual.
func (c *Context) AddRMSNorm(residual, x, weight kernels.Tensor, eps float32) kernels.Tensor {
	out := residual
	if !weight.IsNone() {
		out = c.f32(x.Rows, x.Cols)
	}
	c.AddRMSNormTo(out, residual, x, weight, eps)
	return out
}

// AddRMSNormTo writes the result of AddRMSNorm to out, which is residual if weight is the zero
// tensor.
func (c *Context) AddRMSNormTo(out, residual, x, weight kernels.Tensor, eps float32) {
	if weight.IsNone() {
		c.AddTo(out, residual, x)
		return
	}
	run(c, &c.ops.rmsNorm, norm.RMSNorm{X: x, Residual: residual, Weight: weight, Out: out,
		Eps: eps})
}

// LayerNorm returns the rows of x [M, H] with mean 0 and variance 1, times weight plus bias, both
// [1, H]. bias may be the zero tensor.
func (c *Context) LayerNorm(x, weight, bias kernels.Tensor, eps float32) kernels.Tensor {
	out := c.f32(x.Rows, x.Cols)
	run(c, &c.ops.layerNorm, norm.LayerNorm{X: x, Weight: weight, Bias: bias, Out: out, Eps: eps})
	return out
}

// AddLayerNormTo adds x to residual in place, and writes the LayerNorm of the sum to out, which may
// be residual.
func (c *Context) AddLayerNormTo(out, residual, x, weight, bias kernels.Tensor, eps float32) {
	run(c, &c.ops.layerNorm, norm.LayerNorm{X: x, Residual: residual, Weight: weight, Bias: bias,
		Out: out, Eps: eps})
}

// GatedRMSNorm returns rmsnorm(x) * silu(gate).
func (c *Context) GatedRMSNorm(x, gate, weight kernels.Tensor, eps float32) kernels.Tensor {
	out := c.f32(x.Rows, x.Cols)
	run(c, &c.ops.gatedNorm,
		norm.GatedRMSNorm{X: x, Gate: gate, Weight: weight, Out: out, Eps: eps})
	return out
}

// Add returns x + y.
func (c *Context) Add(x, y kernels.Tensor) kernels.Tensor {
	out := c.f32(x.Rows, x.Cols)
	c.AddTo(out, x, y)
	return out
}

// AddTo writes x + y to out, which may be x or y.
func (c *Context) AddTo(out, x, y kernels.Tensor) {
	run(c, &c.ops.add, activation.Add{X: x, Y: y, Out: out})
}

// AddBias adds bias [1, N] to every row of x in place, unless it is the zero tensor. It returns x.
func (c *Context) AddBias(x, bias kernels.Tensor) kernels.Tensor {
	if !bias.IsNone() {
		c.AddTo(x, x, bias.Repeat(x.Rows))
	}
	return x
}

// MulTo writes x * y to out, which may be x or y. y has the shape of x, or one row for all of its
// rows.
func (c *Context) MulTo(out, x, y kernels.Tensor) {
	if y.Rows == 1 {
		y = y.Repeat(x.Rows)
	}
	run(c, &c.ops.mul, activation.Mul{X: x, Y: y, Out: out})
}

// SoftCap replaces every element x by limit * tanh(x / limit) in place.
func (c *Context) SoftCap(x kernels.Tensor, limit float32) {
	run(c, &c.ops.softCap, activation.SoftCap{X: x, Out: x, Cap: limit})
}

// GELUMul returns gelu(gate) * up, with the tanh approximation of GELU.
func (c *Context) GELUMul(gate, up kernels.Tensor) kernels.Tensor {
	out := c.f32(up.Rows, up.Cols)
	run(c, &c.ops.geluMul, activation.GELUMul{Gate: gate, Up: up, Out: out})
	return out
}

// GELUErfMul returns gelu(gate) * up, with the error function of GELU. up has the shape of gate, or
// one row for all of its rows.
func (c *Context) GELUErfMul(gate, up kernels.Tensor) kernels.Tensor {
	if up.Rows == 1 {
		up = up.Repeat(gate.Rows)
	}
	out := c.f32(gate.Rows, gate.Cols)
	run(c, &c.ops.geluErfMul, activation.GELUErfMul{Gate: gate, Up: up, Out: out})
	return out
}

// SiLUMul returns silu(gate) * up.
func (c *Context) SiLUMul(gate, up kernels.Tensor) kernels.Tensor {
	out := c.f32(up.Rows, up.Cols)
	run(c, &c.ops.siluMul, activation.SiLUMul{Gate: gate, Up: up, Out: out})
	return out
}

// SquareReLU replaces x by the squares of its positive elements and 0 for the others.
func (c *Context) SquareReLU(x kernels.Tensor) kernels.Tensor {
	run(c, &c.ops.reluMul, activation.ReLUMul{Gate: x, Up: x, Out: x})
	return x
}

// SigmoidMul returns x * sigmoid(gate).
func (c *Context) SigmoidMul(x, gate kernels.Tensor) kernels.Tensor {
	out := c.f32(x.Rows, x.Cols)
	run(c, &c.ops.sigmoidMul, activation.SigmoidMul{X: x, Gate: gate, Out: out})
	return out
}

// MaxExpertGroups is the largest Groups of a Routing.
const MaxExpertGroups = moe.MaxGroups

// Routing says how a mixture chooses TopK experts and weighs them. The zero value of the rest has
// the probabilities of a softmax as weights.
type Routing struct {
	TopK      int
	Sigmoid   bool           // the weights are sigmoids
	Bias      kernels.Tensor // [1, E], added to the weights for the choice alone, or none
	Groups    int            // of experts, of which only the best TopGroups count; 0: none
	TopGroups int
	Normalize bool // the weights of a row are divided by their sum plus Epsilon
	Epsilon   float32
	Scale     kernels.Tensor // [1, E], a factor for the weight of each expert, or none
}

// Route returns the best experts of each row of logits [M, E], best first: their ids (I32
// [M, TopK]) and weights [M, TopK].
func (c *Context) Route(logits kernels.Tensor, r Routing) (ids, weights kernels.Tensor) {
	ids, weights = c.Temp(kernels.I32, logits.Rows, r.TopK), c.f32(logits.Rows, r.TopK)
	run(c, &c.ops.route, moe.Route{Logits: logits, K: r.TopK, Sigmoid: r.Sigmoid, Bias: r.Bias,
		Groups: r.Groups, TopGroups: r.TopGroups, Normalize: r.Normalize, Epsilon: r.Epsilon,
		Scale: r.Scale, IDs: ids, Weights: weights})
	return ids, weights
}

// ClampedSwiGLU returns the activation of gpt-oss for each pair of token and expert, from the
// products gate and up [M*k, I] and their biases [E, I]. ids is I32 [M, k].
func (c *Context) ClampedSwiGLU(gate, up, ids, gateBias, upBias kernels.Tensor, limit,
	alpha float32) kernels.Tensor {
	out := c.f32(gate.Rows, gate.Cols)
	run(c, &c.ops.clamped, moe.ClampedSwiGLU{Gate: gate, Up: up, IDs: ids, GateBias: gateBias,
		UpBias: upBias, Limit: limit, Alpha: alpha, Out: out})
	return out
}

// Combine returns, for each token, the sum of its k rows of expert [M*k, H] multiplied by weights
// [M, k], plus shared [M, H] multiplied by sigmoid(sharedGate [M, 1]). shared and sharedGate may be
// zero tensors.
func (c *Context) Combine(expert, weights, shared, sharedGate kernels.Tensor) kernels.Tensor {
	out := c.f32(weights.Rows, expert.Cols)
	run(c, &c.ops.combine, moe.Combine{Experts: expert, Weights: weights, Shared: shared,
		SharedGate: sharedGate, Out: out})
	return out
}

// CombineBiased is Combine without a shared expert. It adds to each row of expert the row of bias
// [E, H] that ids (I32 [M, k]) chooses.
func (c *Context) CombineBiased(expert, weights, bias, ids kernels.Tensor) kernels.Tensor {
	out := c.f32(weights.Rows, expert.Cols)
	run(c, &c.ops.combine, moe.Combine{Experts: expert, Weights: weights, Bias: bias, IDs: ids,
		Out: out})
	return out
}

// Rope is a rotary position embedding. The zero Rope rotates nothing.
type Rope struct {
	InvFreq kernels.Tensor // [1, rotary dims / 2], or none
	Scale   float32        // multiplies cosine and sine (YaRN, LongRoPE); 0 means 1
	Pos     PosScale       // multiplies the rotated rows
	// Interleaved says that dimensions 2i and 2i+1 are a pair; see rope.NormRope.
	Interleaved bool
}

// PosScale is a factor that depends on the position: Factors[i] from position i*Step on, the last
// one for all later positions. The zero PosScale is 1 everywhere.
type PosScale struct {
	Factors kernels.Tensor // [1, N], or none
	Step    int
}

// NormRope applies RMSNorm, unless weight is the zero tensor, and then the rotary position
// embedding to each head. x is [M*heads, D] and may be a view. If there is nothing to do, NormRope
// returns x.
func (c *Context) NormRope(x, weight kernels.Tensor, r Rope, spans []kernels.Span, heads int,
	eps float32) kernels.Tensor {
	switch {
	case !r.InvFreq.IsNone():
	case !weight.IsNone():
		return c.RMSNorm(x, weight, eps)
	default:
		return x
	}
	out := c.f32(x.Rows, x.Cols)
	run(c, &c.ops.normRope, rope.NormRope{X: x, Weight: weight, InvFreq: r.InvFreq, Out: out,
		Spans: spans, Heads: heads, Eps: eps, Scale: r.Scale, PosScale: r.Pos.Factors,
		PosStep: r.Pos.Step, Interleaved: r.Interleaved})
	return out
}

// RopeTo writes the rotary position embedding of each head of x [M*heads, D] to out. Both may be
// views. They are different tensors if r is interleaved.
func (c *Context) RopeTo(out, x kernels.Tensor, r Rope, spans []kernels.Span, heads int) {
	run(c, &c.ops.normRope, rope.NormRope{X: x, InvFreq: r.InvFreq, Out: out, Spans: spans,
		Heads: heads, Scale: r.Scale, PosScale: r.Pos.Factors, PosStep: r.Pos.Step,
		Interleaved: r.Interleaved})
}

// Attention writes k and v [M, KVH*D] to the cache, unless they are zero tensors, and returns the
// attention [M, H*D] of q [M, H*D] over it. Each row sees the last window positions, including its
// own position, and the first sinkTokens positions. If window is 0, it sees all positions up to its
// own. cap limits the scores (attention.Attention), unless it is 0. sinks [1, H] has a logit per
// head that only the denominator of the softmax counts, or is the zero tensor. If the values are
// part of the keys, v is the zero tensor, and the result is [M, H*ValueDim].
func (c *Context) Attention(q, k, v kernels.Tensor, cache *attention.Cache, spans []kernels.Span,
	scale, cap float32, sinks kernels.Tensor, window, sinkTokens int) kernels.Tensor {
	if !k.IsNone() {
		c.Append(k, v, cache, spans)
	}
	cols := q.Cols
	if cache.ValueDim > 0 {
		cols = q.Cols / cache.HeadDim * cache.ValueDim
	}
	out := c.f32(q.Rows, cols)
	run(c, &c.ops.attention,
		attention.Attention{Q: q, Out: out, Cache: cache, Spans: spans, Scale: scale, Cap: cap,
			Sinks: sinks, Window: window, SinkTokens: sinkTokens})
	return out
}

// Append writes k and v [M, KVH*D] to the cache. v is the zero tensor if the cache has no V.
func (c *Context) Append(k, v kernels.Tensor, cache *attention.Cache, spans []kernels.Span) {
	run(c, &c.ops.append, attention.Append{K: k, V: v, Cache: cache, Spans: spans})
}

// Select selects the positions to which rows after the prompt of span attend; see attention.Select.
// q is that of Attention.
func (c *Context) Select(q kernels.Tensor, cache *attention.Cache, span kernels.Span, scale,
	cap float32) {
	run(c, &c.ops.selects,
		attention.Select{Q: q, Cache: cache, Span: span, Scale: scale, Cap: cap})
}

// FullAttention is Attention in which a row sees all positions of its span, also those after its
// own. The spans begin at position 0. If window is not 0, a row sees that many positions before its
// own and after it.
func (c *Context) FullAttention(q, k, v kernels.Tensor, cache *attention.Cache,
	spans []kernels.Span, scale, cap float32, window int) kernels.Tensor {
	c.Append(k, v, cache, spans)
	out := c.f32(q.Rows, q.Cols)
	op := attention.Attention{Q: q, Out: out, Cache: cache, Spans: spans, Scale: scale, Cap: cap,
		Following: attention.MostFollowing}
	if window > 0 {
		op.Window, op.Following = window+1, window
	}
	run(c, &c.ops.attention, op)
	return out
}

// CopyPages copies the pages [from, from+pages) of a cache to [to, to+pages).
func (c *Context) CopyPages(cache *attention.Cache, from, to, pages int) {
	k, v := cache.KPageBytes(), cache.VPageBytes()
	c.Copy(cache.K, from*k, to*k, pages*k)
	if cache.V != nil {
		c.Copy(cache.V, from*v, to*v, pages*v)
	}
}

// Copy copies b[from:from+bytes] to b[to:to+bytes].
func (c *Context) Copy(b *kernels.Buffer, from, to, bytes int) {
	run(c, &c.ops.copy, transfer.Copy{Buffer: b, From: from, To: to, Bytes: bytes})
}

// MaxTaps is the largest number of taps of a convolution. The smallest is 2.
const MaxTaps = recurrent.MaxTaps

// ConvTo writes the causal depthwise convolution of x [M, C] along each span to out [M, C], without
// an activation. It updates state, the last rows of x, and keeps the states that rounds list, which
// split spans or are nil. Rows of out that belong to no span are not written.
func (c *Context) ConvTo(out, x, weight, state kernels.Tensor, spans []kernels.Span,
	rounds []kernels.Round) {
	run(c, &c.ops.conv, recurrent.Conv{X: x, Weight: weight, State: state, Spans: spans,
		Rounds: rounds, Out: out, Linear: true})
}

// DeltaShape has the numbers of key and value heads (Hk, Hv) of a GatedDeltaNet layer, and the
// dimensions of a head (Dk, Dv).
type DeltaShape struct{ Hk, Hv, Dk, Dv int }

// ConvGatedDeltaTo computes the causal depthwise convolution of qkv [M, 2*Hk*Dk+Hv*Dv] along each
// span, then SiLU, then the gated delta rule. It writes the result to out [M, Hv*Dv]. a and b are
// [M, Hv]. It updates convState, the last input rows of the convolution, and state, the matrices of
// the delta rule. Spans, rounds and rows of out are as in ConvTo.
func (c *Context) ConvGatedDeltaTo(out, qkv, weight, convState, a, b, aLog, dtBias,
	state kernels.Tensor, spans []kernels.Span, rounds []kernels.Round, s DeltaShape) {
	mark := c.Mark()
	run(c, &c.ops.delta, recurrent.ConvGatedDelta{X: qkv, Weight: weight, ConvState: convState,
		A: a, B: b, ALog: aLog, DtBias: dtBias, State: state,
		Spans: spans, Rounds: rounds, ConvOut: c.f32(qkv.Rows, qkv.Cols), Out: out, Hk: s.Hk,
		Hv: s.Hv, Dk: s.Dk, Dv: s.Dv})
	c.Release(mark)
}

// MaxStateCols is the largest N of an SSMShape.
const MaxStateCols = recurrent.MaxKeyDim

// SSMShape has the numbers of heads and groups of a Mamba-2 layer, the dimension of a head, the
// columns N of its state, and the limits of dt.
type SSMShape struct {
	Heads, Groups, Dim, N int
	DtMin, DtMax          float32
}

// ConvSSMTo computes the causal depthwise convolution of x [M, Heads*Dim + 2*Groups*N] along each
// span, then SiLU, then the recurrence of Mamba-2. It writes the result to out [M, Heads*Dim]. bias
// may be the zero tensor. dt is [M, Heads]. It updates convState, the last input rows of the
// convolution, and state, the matrices of the recurrence. Spans, rounds and rows of out are as in
// ConvTo.
func (c *Context) ConvSSMTo(out, x, weight, bias, convState, dt, aLog, dtBias, d,
	state kernels.Tensor, spans []kernels.Span, rounds []kernels.Round, s SSMShape) {
	mark := c.Mark()
	in := c.f32(x.Rows, x.Cols)
	run(c, &c.ops.conv, recurrent.Conv{X: x, Weight: weight, Bias: bias, State: convState,
		Spans: spans, Rounds: rounds, Out: in})
	run(c, &c.ops.ssm, recurrent.SSM{X: in, Dt: dt, ALog: aLog, DtBias: dtBias, D: d, State: state,
		Spans: spans, Rounds: rounds, Out: out, Heads: s.Heads, Groups: s.Groups, Dim: s.Dim,
		N: s.N, DtMin: s.DtMin, DtMax: s.DtMax})
	c.Release(mark)
}

package models

// The layer that most architectures have. A mixer, which is attention or recurrent, and a
// feed-forward part, which is an MLP or a mixture of experts, each add their output to the residual
// stream. Architectures differ in the norms around the two and in the options of attention.

import (
	"cmp"
	"math"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// mixer is the part of a layer that mixes tokens: an nn.Attention, an nn.LatentAttention, an
// nn.GatedDeltaNet, an nn.Mamba2 or an nn.ShortConv.
type mixer interface {
	Forward(c *ops.Context, b *batch.Batch, x kernels.Tensor, memory cache.Layer) kernels.Tensor
}

// feedForward is the part of a layer after the mixer: an nn.MLP or an nn.MoE.
type feedForward interface {
	Forward(c *ops.Context, x kernels.Tensor) kernels.Tensor
}

// layerNorms are the weights [1, hidden] of the norms around the two parts of a layer. Each may be
// none. A norm after a part normalizes its output, before it is added to the residual stream.
type layerNorms struct {
	beforeMixer, afterMixer, beforeMLP, afterMLP kernels.Tensor
}

// transformerLayer implements decoderLayer.
type transformerLayer struct {
	norms      layerNorms
	mixer      mixer
	mlp        feedForward
	multiplier kernels.Tensor // [1, hidden], of the output of each part, or none
	afterEps   float32        // of the norms after the parts; 0: that of the others
}

func (l *transformerLayer) inputNorm() kernels.Tensor { return l.norms.beforeMixer }

func (l *transformerLayer) forward(c *ops.Context, b *batch.Batch, h, x, _ kernels.Tensor,
	memory cache.Layer, eps float32) kernels.Tensor {
	after := cmp.Or(l.afterEps, eps)
	x = l.mixer.Forward(c, b, x, memory)
	if !l.norms.afterMixer.IsNone() {
		x = c.RMSNorm(x, l.norms.afterMixer, after)
	}
	l.multiply(c, x)
	x = l.mlp.Forward(c, c.AddRMSNorm(h, x, l.norms.beforeMLP, eps))
	if !l.norms.afterMLP.IsNone() {
		x = c.RMSNorm(x, l.norms.afterMLP, after)
	}
	l.multiply(c, x)
	return x
}

// multiply multiplies the output x of a part in place.
func (l *transformerLayer) multiply(c *ops.Context, x kernels.Tensor) {
	if !l.multiplier.IsNone() {
		c.MulTo(x, x, l.multiplier)
	}
}

// preNorms loads the norms of Llama, one before each part of the layer s. offset is added to their
// weights.
func (c *decoderConfig) preNorms(s checkpoint.Scope, offset float32) layerNorms {
	return layerNorms{
		beforeMixer: s.Vector("input_layernorm.weight", c.HiddenSize, offset),
		beforeMLP:   s.Vector("post_attention_layernorm.weight", c.HiddenSize, offset),
	}
}

// similar loads an architecture that differs from Llama only in its attention. theta is the default
// of rope_theta.
func (c *decoderConfig) similar(w *checkpoint.Weights, theta float64,
	o attentionOptions) (Model, error) {
	return c.alike(w, checkpoint.RopeDefaults{Theta: theta}, o,
		func(_ int, s checkpoint.Scope, o attentionOptions) decoderLayer { return c.layer(s, o) })
}

// alike loads an architecture whose layers all have the same attention. layer loads layer i from s,
// and gets the options with the rope, of which d has the defaults.
func (c *decoderConfig) alike(w *checkpoint.Weights, d checkpoint.RopeDefaults, o attentionOptions,
	layer func(i int, s checkpoint.Scope, o attentionOptions) decoderLayer) (Model, error) {
	var err error
	if o.rope, err = c.rope(w, d); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return layer(i, s, o), c.memory(i)
	}
	return from.load(w, c), nil
}

// layer loads the layer s of an architecture that differs from Llama only in its attention.
func (c *decoderConfig) layer(s checkpoint.Scope, o attentionOptions) *transformerLayer {
	return &transformerLayer{
		norms: c.preNorms(s, 0),
		mlp:   c.mlp(s.Sub("mlp")),
		mixer: c.attention(s.Sub("self_attn"), o),
	}
}

// mlp loads the MLP s. It has biases if MLPBias is true.
func (c *decoderConfig) mlp(s checkpoint.Scope) *nn.MLP {
	return &nn.MLP{
		GateProj: loadLinear(s, "gate_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias),
		UpProj:   loadLinear(s, "up_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias),
		DownProj: loadLinear(s, "down_proj", c.HiddenSize, c.IntermediateSize, c.MLPBias),
		GELU:     c.isGELU(),
	}
}

// attentionOptions say how the attention of an architecture differs from that of Llama without
// rotation, biases and norms, which is the zero value.
type attentionOptions struct {
	rope       ops.Rope
	qkvBias    bool
	outputBias bool
	sinks      bool    // every head has a logit that only the denominator of the softmax counts
	headNorm   bool    // q_norm and k_norm normalize each head
	wideNorm   bool    // q_norm and k_norm normalize the whole projection
	normOffset float32 // added to the weights of q_norm and k_norm
	outputGate bool    // q_proj has, for each head, the rows of the query and then those of a gate
	ownGate    bool    // gate_proj has the rows of the gate
	fused      bool    // qkv_proj has the rows of q_proj, k_proj and v_proj, which have no bias
	kvFrom     kvSource
	scale      float32 // of the scores; 0: 1/sqrt(head_dim)
	queryScale ops.PosScale
	cap        float32 // of the scaled scores; 0: none
	// bidirectional and fullWindow are those of nn.Attention.
	bidirectional bool
	fullWindow    int
	names         attentionNames
	// normRotated says that q_norm and k_norm normalize heads after their rotation.
	normRotated bool
}

// attentionNames are the names of a module and of two tensors of attention, if they differ from
// those of Llama.
type attentionNames struct{ outProj, qNorm, kNorm string }

// kvSource says where the keys and values of an attention layer come from.
type kvSource int

const (
	kvOwn        kvSource = iota // k_proj and v_proj
	kvKeysOnly                   // k_proj gives both
	kvOtherLayer                 // the memory of another layer
)

// attention loads the attention module s.
func (c *decoderConfig) attention(s checkpoint.Scope, o attentionOptions) *nn.Attention {
	queryRows, kvRows := c.NumAttentionHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	outputRows := queryRows
	if o.outputGate {
		queryRows *= 2
	}
	a := &nn.Attention{
		Rope:       o.rope,
		QueryScale: o.queryScale,
		Heads:      c.NumAttentionHeads,
		KVHeads:    c.NumKeyValueHeads,
		HeadDim:    c.HeadDim,
		Scale:      o.scale,
		Cap:        o.cap,
		Eps:        c.RMSNormEps,
		OutputGate: o.outputGate,

		NormRotated:   o.normRotated,
		Bidirectional: o.bidirectional,
		FullWindow:    o.fullWindow,
	}
	if o.fused {
		parts := s.Split("qkv_proj", c.HiddenSize, queryRows, kvRows, kvRows)
		a.QProj.Weight, a.KProj.Weight, a.VProj.Weight = parts[0], parts[1], parts[2]
	} else {
		a.QProj = loadLinear(s, "q_proj", queryRows, c.HiddenSize, o.qkvBias)
		if o.kvFrom != kvOtherLayer {
			a.KProj = loadLinear(s, "k_proj", kvRows, c.HiddenSize, o.qkvBias)
		}
		if o.kvFrom == kvOwn {
			a.VProj = loadLinear(s, "v_proj", kvRows, c.HiddenSize, o.qkvBias)
		}
	}
	if o.ownGate {
		a.GateProj = s.Linear("gate_proj", outputRows, c.HiddenSize)
	}
	a.OProj = loadLinear(s, cmp.Or(o.names.outProj, "o_proj"), c.HiddenSize, outputRows,
		o.outputBias)
	if a.Scale == 0 {
		a.Scale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	}
	if o.sinks {
		a.Sinks = s.Vector("sinks", c.NumAttentionHeads, 0)
	}
	qNorm := cmp.Or(o.names.qNorm, "q_norm.weight")
	kNorm := cmp.Or(o.names.kNorm, "k_norm.weight")
	switch {
	case o.headNorm:
		a.QNorm = s.Vector(qNorm, c.HeadDim, o.normOffset)
		if o.kvFrom != kvOtherLayer {
			a.KNorm = s.Vector(kNorm, c.HeadDim, o.normOffset)
		}
	case o.wideNorm:
		a.QNorm = s.Vector(qNorm, outputRows, o.normOffset)
		a.KNorm = s.Vector(kNorm, kvRows, o.normOffset)
	}
	return a
}

// memory returns the cache memory of layer i, which has attention. In a sliding-window layer it is
// limited to the window, unless that is as long as the context. After the last layer comes that of
// a block that drafts, which has none.
func (c *decoderConfig) memory(i int) cache.LayerSpec {
	spec := c.attentionSpec()
	if i < len(c.LayerTypes) && c.LayerTypes[i] == slidingAttention &&
		c.SlidingWindow < c.MaxPositionEmbeddings {
		spec.Window = c.SlidingWindow
	}
	return spec
}

package models

// Qwen3.5 and Qwen3.6, dense and mixture of experts, have layers of GatedDeltaNet. Every
// full_attention_interval-th layer has full attention instead. Every layer ends with a SwiGLU MLP,
// or with experts and one shared expert.
//
// Sources: Hugging Face transformers, models/qwen3_5 and qwen3_5_moe; mlx-lm, models/qwen3_5.py.
// Checkpoints: Hugging Face originals, which store norm weights zero-centred, and MLX conversions,
// which do not. In MLX conversions, tensor names begin with "language_model.". The block that
// drafts tokens (mtp.go) is in mtp.*, if a conversion has kept it, or in files of its own.

import (
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// qwen35RopeDefaults has the defaults of Qwen3-Next too.
var qwen35RopeDefaults = checkpoint.RopeDefaults{Theta: 1e4, PartialFactor: 0.25}

type qwen35Config struct {
	decoderConfig
	mixtureConfig
	FullAttentionInterval int `json:"full_attention_interval"`
	LinearNumKeyHeads     int `json:"linear_num_key_heads"`
	LinearNumValueHeads   int `json:"linear_num_value_heads"`
	LinearKeyHeadDim      int `json:"linear_key_head_dim"`
	LinearValueHeadDim    int `json:"linear_value_head_dim"`
	LinearConvKernelDim   int `json:"linear_conv_kernel_dim"`

	interleaved bool // the projections of GatedDeltaNet are those of Qwen3-Next (qwen3_next.go)
}

func (c *qwen35Config) validate(w *checkpoint.Weights) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	faults := append(c.decoderConfig.resolve(),
		positive("linear_conv_kernel_dim", c.LinearConvKernelDim),
		positive("linear_key_head_dim", c.LinearKeyHeadDim),
		positive("linear_value_head_dim", c.LinearValueHeadDim),
		divides("linear_num_key_heads", c.LinearNumKeyHeads,
			"linear_num_value_heads", c.LinearNumValueHeads))
	faults = append(faults, c.mixtureConfig.resolve(&c.decoderConfig)...)
	if c.NumExperts != 0 {
		faults = append(faults, positive("shared_expert_intermediate_size",
			c.SharedExpertIntermediateSize))
	}
	var err error
	c.LayerTypes, err = c.layerTypes(c.LayerTypes, c.FullAttentionInterval, linearAttention)
	return validate(w.Config.ModelType, append(faults, err)...)
}

func newQwen35Config() qwen35Config {
	return qwen35Config{
		decoderConfig: newDecoderConfig(),
		mixtureConfig: mixtureConfig{NormTopKProb: true},
	}
}

func loadQwen35(w *checkpoint.Weights) (Model, error) {
	c := newQwen35Config()
	return c.load(w)
}

// load reads config.json into c, which has the defaults, and builds the model.
func (c *qwen35Config) load(w *checkpoint.Weights) (Model, error) {
	if err := w.Config.Decode(c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, qwen35RopeDefaults)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.normOffset = c.normOffset(from.model)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.hybridLayer(i, s, rope, from.normOffset)
	}
	from.blockLayer = func(s checkpoint.Scope, offset float32) (decoderLayer, cache.LayerSpec) {
		return &transformerLayer{norms: c.preNorms(s, offset),
			mixer: c.gatedAttention(s.Sub("self_attn"), rope, offset),
			mlp: c.mixtureConfig.load(s.Sub("mlp"), c.NumHiddenLayers-1,
				&c.decoderConfig)}, c.attentionSpec()
	}
	return from.load(w, &c.decoderConfig), nil
}

// gatedAttention loads the attention module s.
func (c *qwen35Config) gatedAttention(s checkpoint.Scope, rope ops.Rope,
	normOffset float32) *nn.Attention {
	o := c.qwen3Attention()
	o.rope, o.normOffset, o.outputGate = rope, normOffset, true
	return c.attention(s, o)
}

// normOffset returns the value to add to norm weights. It is 1 for Hugging Face checkpoints, which
// store w-1, and 0 for MLX conversions. The shape of conv1d tells which of the two it is: Hugging
// Face's is [C, 1, taps], MLX's is [C, taps, 1].
func (c *qwen35Config) normOffset(model checkpoint.Scope) float32 {
	for i, kind := range c.LayerTypes {
		shape := model.Shape(fmt.Sprintf("layers.%d.linear_attn.conv1d.weight", i))
		if kind == linearAttention && len(shape) == 3 && shape[2] != 1 {
			return 1
		}
	}
	return 0
}

func (c *qwen35Config) hybridLayer(i int, s checkpoint.Scope, rope ops.Rope,
	normOffset float32) (decoderLayer, cache.LayerSpec) {
	l := &transformerLayer{norms: c.preNorms(s, normOffset)}
	var spec cache.LayerSpec
	if c.LayerTypes[i] == fullAttention {
		l.mixer = c.gatedAttention(s.Sub("self_attn"), rope, normOffset)
		spec = c.attentionSpec()
	} else {
		l.mixer, spec = c.gatedDeltaNet(s.Sub("linear_attn")), c.linearAttentionSpec()
	}
	l.mlp = c.mixtureConfig.load(s.Sub("mlp"), i, &c.decoderConfig)
	return l, spec
}

func (c *qwen35Config) gatedDeltaNet(s checkpoint.Scope) *nn.GatedDeltaNet {
	shape := c.deltaShape()
	channels, valueDim := c.convChannels(), shape.Hv*shape.Dv
	var qkv, z, beta, a *kernels.Weight
	if c.interleaved {
		qkv, z, beta, a = c.splitProjections(s)
	} else {
		qkv = s.Linear("in_proj_qkv", channels, c.HiddenSize)
		z = s.Linear("in_proj_z", valueDim, c.HiddenSize)
		beta = s.Linear("in_proj_b", shape.Hv, c.HiddenSize)
		a = s.Linear("in_proj_a", shape.Hv, c.HiddenSize)
	}
	return &nn.GatedDeltaNet{
		InProjQKV: qkv, InProjZ: z, InProjB: beta, InProjA: a,
		OutProj: s.Linear("out_proj", c.HiddenSize, valueDim),
		// The checkpoint has [C, taps, 1] or [C, 1, taps].
		Conv1D:     s.Matrix("conv1d.weight", channels, c.LinearConvKernelDim, 0),
		ALog:       s.Vector("A_log", shape.Hv, 0),
		DtBias:     s.Vector("dt_bias", shape.Hv, 0),
		Norm:       s.Vector("norm.weight", shape.Dv, 0), // never stored zero-centred
		DeltaShape: shape,
		Eps:        c.RMSNormEps,
	}
}

func (c *qwen35Config) deltaShape() ops.DeltaShape {
	return ops.DeltaShape{Hk: c.LinearNumKeyHeads, Hv: c.LinearNumValueHeads,
		Dk: c.LinearKeyHeadDim, Dv: c.LinearValueHeadDim}
}

// convChannels returns C, the number of channels of the convolution over q, k and v.
func (c *qwen35Config) convChannels() int {
	s := c.deltaShape()
	return 2*s.Hk*s.Dk + s.Hv*s.Dv
}

// linearAttentionSpec returns the state memory of a GatedDeltaNet layer.
func (c *qwen35Config) linearAttentionSpec() cache.LayerSpec {
	s := c.deltaShape()
	return cache.LayerSpec{
		ConvValues:   (c.LinearConvKernelDim - 1) * c.convChannels(),
		ConvChannels: c.convChannels(),
		StateValues:  s.Hv * s.Dv * s.Dk,
		StateRow:     s.Dk,
	}
}

package models

// Gemma 2 has layers of grouped-query attention. Every second layer has full attention, and the
// others, from the first on, have a sliding window. There are norms before and after both attention
// and the GEGLU MLP. Soft caps bound the scores of attention and the logits. Embeddings are scaled
// by sqrt(hidden) and tied to the head.
//
// Sources: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size"; Hugging
// Face transformers, models/gemma2; mlx-lm, models/gemma2.py, which ignores the window and differs
// in prompts longer than that. Checkpoints: Gemma 2 2B, 9B and 27B, MLX conversions included. All
// store norm weights zero-centred.

import (
	"fmt"
	"math"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/kernels"
)

const (
	gemma2RopeTheta = 1e4 // the default of rope_theta
	gemmaNormOffset = 1   // norm weights are stored zero-centred
)

// gemmaConfig holds the keys of Gemma 2 that Gemma 3 has, too.
type gemmaConfig struct {
	decoderConfig
	QueryPreAttnScalar float64  `json:"query_pre_attn_scalar"`
	HiddenActivation   string   `json:"hidden_activation"`
	Bidirectional      bool     `json:"use_bidirectional_attention"`
	AttnLogitSoftcap   *float64 `json:"attn_logit_softcapping"`  // null: none
	FinalLogitSoftcap  *float64 `json:"final_logit_softcapping"` // null: none

	bidirectional bool // the architecture allows use_bidirectional_attention
}

// newGemma2Config returns the defaults of transformers.
func newGemma2Config() gemmaConfig {
	attn, final := 50.0, 30.0
	return gemmaConfig{
		decoderConfig: decoderConfig{
			VocabSize:             256000,
			NumAttentionHeads:     8,
			NumKeyValueHeads:      4,
			HeadDim:               256,
			MaxPositionEmbeddings: 8192,
			RMSNormEps:            defaultRMSNormEps,
			TieWordEmbeddings:     true,
			SlidingWindow:         4096,
		},
		QueryPreAttnScalar: 256,
		HiddenActivation:   "gelu_pytorch_tanh",
		AttnLogitSoftcap:   &attn,
		FinalLogitSoftcap:  &final,
	}
}

func loadGemma2(w *checkpoint.Weights) (Model, error) {
	c := newGemma2Config()
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w, 2); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, checkpoint.RopeDefaults{Theta: gemma2RopeTheta})
	if err != nil {
		return nil, err
	}
	o := attentionOptions{scale: c.scale(), cap: softcap(c.AttnLogitSoftcap)}
	return c.load(w, o, func(int) ops.Rope { return rope }), nil
}

// validate checks the config. Every interval-th layer has full attention, unless the config has
// layer_types.
func (c *gemmaConfig) validate(w *checkpoint.Weights, interval int) error {
	if c.HiddenActivation != "gelu_pytorch_tanh" || c.AttentionBias ||
		c.Bidirectional != (c.bidirectional && w.Config.Modules != nil) {
		return unsupported(w,
			"hidden_activation %s, attention_bias %t, use_bidirectional_attention %t",
			c.HiddenActivation, c.AttentionBias, c.Bidirectional)
	}
	if c.RopeTraditional {
		return unsupported(w, "rope_traditional is true, expected false")
	}
	faults := append(c.resolve(),
		positive("intermediate_size", c.IntermediateSize),
		positive("sliding_window", c.SlidingWindow),
		positiveNumber("query_pre_attn_scalar", &c.QueryPreAttnScalar),
		positiveNumber("attn_logit_softcapping", c.AttnLogitSoftcap),
		positiveNumber("final_logit_softcapping", c.FinalLogitSoftcap))
	var err error
	c.LayerTypes, err = c.layerTypes(c.LayerTypes, interval, slidingAttention)
	return validate(w.Config.ModelType, append(faults, err)...)
}

// positiveNumber returns an error unless value is nil or a number that float32 has, above 0.
func positiveNumber(key string, value *float64) error {
	if value != nil && !(float32(*value) > 0 && *value <= math.MaxFloat32) {
		return fmt.Errorf("%s is %g, expected a positive number", key, *value)
	}
	return nil
}

// softcap returns the value of a cap, 0 for none.
func softcap(value *float64) float32 {
	if value == nil {
		return 0
	}
	return float32(*value)
}

// scale returns the factor of the scores.
func (c *gemmaConfig) scale() float32 { return float32(1 / math.Sqrt(c.QueryPreAttnScalar)) }

// load builds the model. o describes attention, and rope returns the rotary position embedding of a
// layer.
func (c *gemmaConfig) load(w *checkpoint.Weights, o attentionOptions,
	rope func(layer int) ops.Rope) *decoder {
	from := textWeights(w)
	from.normOffset, o.normOffset = gemmaNormOffset, gemmaNormOffset
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		o.rope, o.bidirectional, o.fullWindow = rope(i), c.Bidirectional, 0
		if !c.Bidirectional {
			return c.sandwichLayer(s, o), c.memory(i)
		}
		if c.LayerTypes[i] == slidingAttention { // half of it on each side
			o.fullWindow = c.SlidingWindow / 2
		}
		return c.sandwichLayer(s, o), c.attentionSpec()
	}
	m := from.load(w, &c.decoderConfig)
	if m.bidirectional = c.Bidirectional; m.bidirectional {
		m.spec.Layers = m.spec.Layers[:min(len(m.spec.Layers), 1)]
	}
	m.embedScale = float32(math.Sqrt(float64(c.HiddenSize)))
	// The reference has the scale in the type of the embeddings. Of language models only originals
	// in bfloat16 and conversions of them are known.
	if !m.bidirectional || m.embedTokens.Bits > 0 || m.embedTokens.Data.DType != kernels.F32 {
		m.embedScale = bfloat16(m.embedScale)
	}
	m.logitCap = softcap(c.FinalLogitSoftcap)
	return m
}

// sandwichLayer loads the layer s, which has a norm before and after each part.
func (c *gemmaConfig) sandwichLayer(s checkpoint.Scope, o attentionOptions) *transformerLayer {
	norm := func(name string) kernels.Tensor {
		return s.Vector(name+".weight", c.HiddenSize, gemmaNormOffset)
	}
	l := &transformerLayer{norms: layerNorms{
		beforeMixer: norm("input_layernorm"),
		afterMixer:  norm("post_attention_layernorm"),
		beforeMLP:   norm("pre_feedforward_layernorm"),
		afterMLP:    norm("post_feedforward_layernorm"),
	}}
	mlp := loadMLP(s.Sub("mlp"), c.HiddenSize, c.IntermediateSize)
	mlp.GELU = true
	l.mlp = &mlp
	l.mixer = c.attention(s.Sub("self_attn"), o)
	return l
}

// bfloat16 rounds x to the nearest bfloat16, ties to even. The reference implementation stores the
// scale of the embeddings in this type.
func bfloat16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

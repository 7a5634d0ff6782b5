package models

// Gemma 3 has layers of grouped-query attention. Every sixth layer has full attention, and the
// others have a sliding window. The two kinds have different rotary frequencies. There are norms
// before and after both attention and the GEGLU MLP. Embeddings are scaled by sqrt(hidden) and tied
// to the head.
//
// Sources: Gemma 3 Technical Report (2025); Hugging Face transformers, models/gemma3; mlx-lm,
// models/gemma3_text.py. Checkpoints: the text models (gemma3_text) and the text part of the
// multimodal models (gemma3), MLX conversions included. All store norm weights zero-centred.

import (
	"fmt"
	"math"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/kernels"
)

const (
	gemma3RopeTheta  = 1e6 // the default of rope_theta for full attention
	gemma3NormOffset = 1   // norm weights are stored zero-centred
)

type gemma3Config struct {
	decoderConfig
	QueryPreAttnScalar   float64 `json:"query_pre_attn_scalar"`
	SlidingWindowPattern int     `json:"sliding_window_pattern"`
	RopeLocalBaseFreq    float64 `json:"rope_local_base_freq"`
	HiddenActivation     string  `json:"hidden_activation"`
	Bidirectional        bool    `json:"use_bidirectional_attention"`
	AttnLogitSoftcap     float64 `json:"attn_logit_softcapping"`
	FinalLogitSoftcap    float64 `json:"final_logit_softcapping"`
}

// newGemma3Config returns the defaults of transformers. Multimodal checkpoints omit many keys.
func newGemma3Config() gemma3Config {
	return gemma3Config{
		decoderConfig: decoderConfig{
			VocabSize:             262208,
			NumAttentionHeads:     8,
			NumKeyValueHeads:      4,
			HeadDim:               256,
			MaxPositionEmbeddings: 131072,
			RMSNormEps:            defaultRMSNormEps,
			TieWordEmbeddings:     true,
			SlidingWindow:         4096,
		},
		QueryPreAttnScalar:   256,
		SlidingWindowPattern: 6,
		RopeLocalBaseFreq:    1e4,
		HiddenActivation:     "gelu_pytorch_tanh",
	}
}

func (c *gemma3Config) validate(modelType string) error {
	if c.HiddenActivation != "gelu_pytorch_tanh" || c.AttentionBias || c.Bidirectional ||
		c.AttnLogitSoftcap != 0 || c.FinalLogitSoftcap != 0 {
		return problem.New(problem.UnknownArchitecture,
			"Headroom cannot run this variant of Gemma 3",
			fmt.Sprintf(
				"hidden_activation %s, attention_bias %t, use_bidirectional_attention %t, "+
					"attn_logit_softcapping %g, final_logit_softcapping %g",
				c.HiddenActivation, c.AttentionBias, c.Bidirectional, c.AttnLogitSoftcap,
				c.FinalLogitSoftcap), "Pick another model.")
	}
	faults := append(c.resolve(),
		positive("intermediate_size", c.IntermediateSize),
		positive("sliding_window", c.SlidingWindow),
		positive("sliding_window_pattern", c.SlidingWindowPattern))
	if !(c.QueryPreAttnScalar > 0) {
		faults = append(faults, fmt.Errorf(
			"query_pre_attn_scalar is %g, expected a positive number", c.QueryPreAttnScalar))
	}
	var err error
	c.LayerTypes, err = c.layerTypes(c.LayerTypes, c.SlidingWindowPattern, slidingAttention)
	return validate(modelType, append(faults, err)...)
}

// ropes returns the rotary position embedding of each kind of layer. New configs have an entry for
// each kind in rope_parameters. In old configs, rope_theta and rope_scaling apply to full attention
// only.
func (c *gemma3Config) ropes(w *checkpoint.Weights) (map[string]ops.Rope, error) {
	full, nested, err := w.Config.LayerRope(fullAttention, gemma3RopeTheta)
	if err == nil && !nested {
		full, err = w.Config.Rope(gemma3RopeTheta)
	}
	if err != nil {
		return nil, err
	}
	sliding, _, err := w.Config.LayerRope(slidingAttention, c.RopeLocalBaseFreq)
	if err != nil {
		return nil, err
	}
	ropes := map[string]ops.Rope{}
	if ropes[fullAttention], err = newRope(w, full, c.HeadDim); err != nil {
		return nil, err
	}
	ropes[slidingAttention], err = newRope(w, sliding, c.HeadDim)
	return ropes, err
}

func loadGemma3(w *checkpoint.Weights) (Model, error) {
	c := newGemma3Config()
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w.Config.ModelType); err != nil {
		return nil, err
	}
	ropes, err := c.ropes(w)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.normOffset = gemma3NormOffset
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.sandwichLayer(s, ropes[c.LayerTypes[i]]), c.memory(i)
	}
	m := from.load(w, &c.decoderConfig)
	m.embedScale = bfloat16(float32(math.Sqrt(float64(c.HiddenSize))))
	return m, nil
}

// sandwichLayer loads the layer s, which has a norm before and after each part.
func (c *gemma3Config) sandwichLayer(s checkpoint.Scope, rope ops.Rope) *transformerLayer {
	norm := func(name string) kernels.Tensor {
		return s.Vector(name+".weight", c.HiddenSize, gemma3NormOffset)
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
	l.mixer = c.attention(s.Sub("self_attn"), attentionOptions{rope: rope, headNorm: true,
		normOffset: gemma3NormOffset, scale: float32(1 / math.Sqrt(c.QueryPreAttnScalar))})
	return l
}

// bfloat16 rounds x to the nearest bfloat16, ties to even. The reference implementation stores the
// scale of the embeddings in this type.
func bfloat16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

package models

// Granite has the layers of Llama, and four multipliers: of the embeddings, of the scores of
// attention, of the output of each part of a layer, and of the logits, which logits_scaling
// divides.
//
// Sources: Granite 3.0 Language Models (2024); Hugging Face transformers, models/granite; mlx-lm,
// models/granite.py. Checkpoints: the dense models of Granite 3.0 to 3.3 (2B and 8B), MLX
// conversions included. Granite Code is a Llama.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
)

const graniteRopeTheta = 1e4 // the default of rope_theta

type graniteConfig struct {
	decoderConfig
	EmbeddingMultiplier float64 `json:"embedding_multiplier"`
	AttentionMultiplier float64 `json:"attention_multiplier"` // instead of 1/sqrt(head_dim)
	ResidualMultiplier  float64 `json:"residual_multiplier"`
	LogitsScaling       float64 `json:"logits_scaling"`
}

func newGraniteConfig() graniteConfig {
	c := graniteConfig{decoderConfig: newDecoderConfig(), EmbeddingMultiplier: 1,
		AttentionMultiplier: 1, ResidualMultiplier: 1, LogitsScaling: 1}
	c.MaxPositionEmbeddings = 2048
	return c
}

func loadGranite(w *checkpoint.Weights) (Model, error) {
	c := newGraniteConfig()
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	o.scale = float32(c.AttentionMultiplier)
	var err error
	if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: graniteRopeTheta}); err != nil {
		return nil, err
	}
	return c.load(w, func(i int, s checkpoint.Scope) (*transformerLayer, cache.LayerSpec) {
		return c.layer(s, o), c.memory(i)
	}), nil
}

// load builds the decoder from layers to which it gives their multiplier.
func (c *graniteConfig) load(w *checkpoint.Weights,
	layer func(i int, s checkpoint.Scope) (*transformerLayer, cache.LayerSpec)) *decoder {
	multiplier := scale(ones(w, c.HiddenSize), float32(c.ResidualMultiplier))
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		l, spec := layer(i, s)
		l.multiplier = multiplier
		return l, spec
	}
	m := from.load(w, &c.decoderConfig)
	m.embedScale = float32(c.EmbeddingMultiplier)
	scale(m.norm, float32(1/c.LogitsScaling)) // the head is linear
	return m
}

func (c *graniteConfig) validate(w *checkpoint.Weights) error {
	if err := validate(w.Config.ModelType, c.checkMultipliers()...); err != nil {
		return err
	}
	return c.check(w)
}

// checkMultipliers returns an error, or nil, for each multiplier.
func (c *graniteConfig) checkMultipliers() []error {
	return []error{
		positiveNumber("embedding_multiplier", &c.EmbeddingMultiplier),
		positiveNumber("attention_multiplier", &c.AttentionMultiplier),
		positiveNumber("residual_multiplier", &c.ResidualMultiplier),
		positiveNumber("logits_scaling", &c.LogitsScaling),
	}
}

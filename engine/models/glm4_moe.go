package models

// GLM 4 as a mixture of experts has grouped-query attention that rotates the first half of each
// head, optional norms of queries and keys, and the experts of DeepSeek-V3. The layer after
// the last drafts tokens (MTP, blocks.go).
//
// Sources: GLM-4.5 Team 2025, "GLM-4.5"; Hugging Face transformers, models/glm4_moe; mlx-lm,
// models/glm4_moe.py. Checkpoints: GLM-4.5, GLM-4.5-Air, GLM-4.6 and GLM-4.7, MLX conversions
// included.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
)

// The defaults of rope_theta, partial_rotary_factor and first_k_dense_replace.
const (
	glm4RopeTheta     = 1e4
	glm4PartialFactor = 0.5
	glm4DenseLayers   = 1
	glm4LiteScaling   = 1.8 // routed_scaling_factor of glm4_moe_lite
)

type glm4MoEConfig struct {
	decoderConfig
	deepseekMoEConfig
	UseQKNorm bool `json:"use_qk_norm"`

	alwaysQKNorm, outputBias bool // of the architecture
}

func loadGLM4MoE(w *checkpoint.Weights) (Model, error) {
	c := newGLM4MoEConfig()
	c.FirstKDenseReplace = glm4DenseLayers
	return c.load(w, checkpoint.RopeDefaults{Theta: glm4RopeTheta,
		PartialFactor: glm4PartialFactor})
}

// newGLM4MoEConfig returns the defaults of transformers.
func newGLM4MoEConfig() glm4MoEConfig {
	return glm4MoEConfig{decoderConfig: newDecoderConfig(),
		deepseekMoEConfig: newDeepseekMoEConfig()}
}

// load loads a model of DeepSeek-V3's experts with grouped-query attention. d has the defaults of
// the rope.
func (c *glm4MoEConfig) load(w *checkpoint.Weights, d checkpoint.RopeDefaults) (Model, error) {
	if err := w.Config.Decode(c); err != nil {
		return nil, err
	}
	c.UseQKNorm = c.UseQKNorm || c.alwaysQKNorm
	if err := c.checkSiLU(w); err != nil {
		return nil, err
	}
	faults := append(c.decoderConfig.resolve(), c.deepseekMoEConfig.resolve(&c.decoderConfig)...)
	if err := validate(w.Config.ModelType, faults...); err != nil {
		return nil, err
	}
	o := attentionOptions{qkvBias: c.AttentionBias, headNorm: c.UseQKNorm,
		outputBias: c.AttentionBias && c.outputBias}
	var err error
	if o.rope, err = c.rope(w, d); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return &transformerLayer{
			norms: c.preNorms(s, 0),
			mlp:   c.deepseekMoEConfig.load(w, s.Sub("mlp"), i, &c.decoderConfig),
			mixer: c.attention(s.Sub("self_attn"), o),
		}, c.attentionSpec()
	}
	return from.load(w, &c.decoderConfig), nil
}

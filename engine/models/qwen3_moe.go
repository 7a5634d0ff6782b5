package models

// Qwen3 as a mixture of experts has the attention of Qwen3, and experts instead of the MLP. The
// layers in mlp_only_layers and those between the multiples of decoder_sparse_step keep the MLP. If
// use_sliding_window is true, every layer sees a window, unless sliding_window is null. The
// language model of Qwen3-VL's mixtures is the same, but it has no windows, and its originals have
// transposed experts.
//
// Sources: Qwen3 Technical Report (2025); Hugging Face transformers, models/qwen3_moe; mlx-lm,
// models/qwen3_moe.py. Checkpoints: Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder and the language
// model of Qwen3-VL-30B-A3B, MLX conversions included.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
)

type qwen3MoEConfig struct {
	decoderConfig
	mixtureConfig
	UseSlidingWindow bool `json:"use_sliding_window"`
}

// validate checks the config. Then every layer has a kind in LayerTypes.
func (c *qwen3MoEConfig) validate(w *checkpoint.Weights) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	faults := append(c.decoderConfig.resolve(), c.mixtureConfig.resolve(&c.decoderConfig)...)
	c.LayerTypes = nil // transformers does not read layer_types
	if w.Config.IsNull("sliding_window") {
		c.SlidingWindow = 0 // null is not the default
	}
	if c.UseSlidingWindow && !isQwen3VL(w) {
		c.slideFrom(0)
	}
	return validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...)
}

func loadQwen3MoE(w *checkpoint.Weights) (Model, error) {
	c := qwen3MoEConfig{decoderConfig: newDecoderConfig()}
	c.SlidingWindow = 4096
	c.NormTopKProb = isQwen3VL(w) // the default
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	o := c.qwen3Attention()
	var err error
	if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: qwen3Theta(w)}); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return &transformerLayer{
			norms: c.preNorms(s, 0),
			mlp:   c.mixtureConfig.load(s.Sub("mlp"), i, &c.decoderConfig),
			mixer: c.attention(s.Sub("self_attn"), o),
		}, c.memory(i)
	}
	return from.load(w, &c.decoderConfig), nil
}

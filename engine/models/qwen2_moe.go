package models

// Qwen2 as a mixture of experts has the attention of Qwen2, and experts beside an MLP that sees
// every token and has a gate.
//
// Sources: Hugging Face transformers, models/qwen2_moe; mlx-lm, models/qwen2_moe.py. Checkpoints:
// Qwen1.5-MoE-A2.7B and Qwen2-57B-A14B, MLX conversions included.

import "headroom/engine/checkpoint"

type qwen2MoEConfig struct {
	decoderConfig
	mixtureConfig
	QKVBias          bool `json:"qkv_bias"`
	UseSlidingWindow bool `json:"use_sliding_window"`
}

func loadQwen2MoE(w *checkpoint.Weights) (Model, error) {
	c := qwen2MoEConfig{decoderConfig: newDecoderConfig(), QKVBias: true}
	c.MaxPositionEmbeddings = 32768
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if c.UseSlidingWindow {
		return nil, unsupported(w, "use_sliding_window is true, expected false")
	}
	if err := c.checkSiLU(w); err != nil {
		return nil, err
	}
	c.LayerTypes = nil
	faults := append(c.decoderConfig.resolve(), c.mixtureConfig.resolve(&c.decoderConfig)...)
	if err := validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...); err != nil {
		return nil, err
	}
	return c.alike(w, checkpoint.RopeDefaults{Theta: qwen2RopeTheta},
		attentionOptions{qkvBias: c.QKVBias},
		func(i int, s checkpoint.Scope, o attentionOptions) decoderLayer {
			return &transformerLayer{norms: c.preNorms(s, 0),
				mlp:   c.mixtureConfig.load(s.Sub("mlp"), i, &c.decoderConfig),
				mixer: c.attention(s.Sub("self_attn"), o)}
		})
}

package models

// StableLM has LayerNorm and rotates a part of each head. In some models attention and the MLP are
// side by side.
//
// Sources: Hugging Face transformers, models/stablelm; mlx-lm, models/stablelm.py. Checkpoints:
// StableLM 3B, StableLM 2 1.6B and Stable Code, MLX conversions included. StableLM 2 12B, which
// normalizes the heads of queries and keys, does not run.

import "headroom/engine/checkpoint"

type stableLMConfig struct {
	layerNormConfig
	UseQKVBias          bool `json:"use_qkv_bias"`
	UseParallelResidual bool `json:"use_parallel_residual"`
	QKLayerNorm         bool `json:"qk_layernorm"`
}

func loadStableLM(w *checkpoint.Weights) (Model, error) {
	c := stableLMConfig{layerNormConfig: newLayerNormConfig()}
	c.MaxPositionEmbeddings = 4096
	if err := c.decode(w, &c); err != nil {
		return nil, err
	}
	if c.QKLayerNorm {
		return nil, unsupported(w, "qk_layernorm is true, expected false")
	}
	c.LayerTypes = nil
	if err := c.check(w); err != nil {
		return nil, err
	}
	c.normBias = true
	return c.load(w, checkpoint.RopeDefaults{Theta: 1e4, PartialFactor: 0.25},
		attentionOptions{qkvBias: c.UseQKVBias}, c.UseParallelResidual, nil,
		func(s checkpoint.Scope) feedForward { return c.mlp(s) })
}

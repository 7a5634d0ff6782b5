package models

// Command R has attention and the MLP side by side, which read the same LayerNorm, and rotates each
// dimension of a head with the next one. The head is tied, and logit_scale multiplies the logits.
// As cohere2, three of four layers have a sliding window, and the others do not rotate.
//
// Sources: Hugging Face transformers, models/cohere and cohere2; mlx-lm, models/cohere.py and
// cohere2.py. Checkpoints: Command R, Aya 23 and Aya Expanse, and as cohere2 Command R7B and
// Command A, MLX conversions included.

import "headroom/engine/checkpoint"

type cohereConfig struct {
	layerNormConfig
	LogitScale           float64 `json:"logit_scale"`
	LayerNormBias        bool    `json:"layer_norm_bias"`
	UseQKNorm            bool    `json:"use_qk_norm"`
	SlidingWindowPattern int     `json:"sliding_window_pattern"`
}

func loadCohere(w *checkpoint.Weights) (Model, error) {
	c := cohereConfig{layerNormConfig: newLayerNormConfig(), LogitScale: 0.0625,
		SlidingWindowPattern: 4}
	c.TieWordEmbeddings, c.MaxPositionEmbeddings = true, 8192
	if err := c.decode(w, &c); err != nil {
		return nil, err
	}
	if c.UseQKNorm {
		return nil, unsupported(w, "use_qk_norm is true, expected false")
	}
	theta, windows := 1e4, w.Config.ModelType == "cohere2"
	var rotates func(int) bool
	if windows {
		theta = 5e4
		if err := validate(w.Config.ModelType,
			positive("sliding_window_pattern", c.SlidingWindowPattern)); err != nil {
			return nil, err
		}
		if len(c.LayerTypes) == 0 {
			c.LayerTypes, _ = c.layerTypes(nil, c.SlidingWindowPattern, slidingAttention)
		}
		rotates = func(i int) bool { return c.LayerTypes[i] == slidingAttention }
	} else {
		c.LayerTypes = nil
	}
	if err := c.check(w); err != nil {
		return nil, err
	}
	if err := validate(w.Config.ModelType,
		positiveNumber("logit_scale", &c.LogitScale)); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	c.RopeTraditional, c.normBias = true, c.LayerNormBias
	m, err := c.load(w, checkpoint.RopeDefaults{Theta: theta}, o, true, rotates,
		func(s checkpoint.Scope) feedForward { return c.mlp(s) })
	if err != nil {
		return nil, err
	}
	scale(m.finalNorm.weight, float32(c.LogitScale)) // the head is linear
	scale(m.finalNorm.bias, float32(c.LogitScale))
	return m, nil
}

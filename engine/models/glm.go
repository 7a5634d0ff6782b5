package models

// GLM-4 rotates each dimension of the first part of a head with the next one, and has one matrix
// for gate and up. GLM-4-0414 also has a norm after each part of a layer.
//
// Sources: Hugging Face transformers, models/glm and glm4; mlx-lm, models/glm.py, which rotates the
// whole head, and glm4.py. Checkpoints: GLM-4 9B, GLM-Edge, and as glm4 GLM-4-0414 and GLM-Z1 of 9B
// and 32B, MLX conversions included.

import "headroom/engine/checkpoint"

var glmRopeDefaults = checkpoint.RopeDefaults{Theta: 1e4, PartialFactor: 0.5}

func loadGLM(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.RMSNormEps, c.MaxPositionEmbeddings = 1.5625e-7, 131072
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	c.LayerTypes, c.RopeTraditional = nil, false
	if err := c.check(w); err != nil {
		return nil, err
	}
	c.RopeTraditional = true
	sandwich := w.Config.ModelType == "glm4"
	return c.alike(w, glmRopeDefaults,
		attentionOptions{qkvBias: c.AttentionBias},
		func(_ int, s checkpoint.Scope, o attentionOptions) decoderLayer {
			l := &transformerLayer{norms: c.preNorms(s, 0), mlp: c.gateUpMLP(s.Sub("mlp")),
				mixer: c.attention(s.Sub("self_attn"), o)}
			if sandwich {
				l.norms.afterMixer = s.Vector("post_self_attn_layernorm.weight", c.HiddenSize, 0)
				l.norms.afterMLP = s.Vector("post_mlp_layernorm.weight", c.HiddenSize, 0)
			}
			return l
		})
}

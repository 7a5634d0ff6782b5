package models

// OLMo 2 has the layers of OLMo 3, and full attention in all of them.
//
// Sources: 2 OLMo 2 Furious (2024); Hugging Face transformers, models/olmo2; mlx-lm,
// models/olmo2.py. Checkpoints: OLMo 2 1B to 32B, MLX conversions included.

import "headroom/engine/checkpoint"

const olmo2RopeTheta = 1e4 // the default of rope_theta

func loadOLMo2(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-5, 2048
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	c.LayerTypes = nil
	if err := c.check(w); err != nil {
		return nil, err
	}
	return c.alike(w, checkpoint.RopeDefaults{Theta: olmo2RopeTheta}, attentionOptions{},
		func(_ int, s checkpoint.Scope, o attentionOptions) decoderLayer {
			return c.olmo3Layer(s, o.rope)
		})
}

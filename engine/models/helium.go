package models

// Helium has the layers of Llama, and rotates each dimension of a head with the next one.
//
// Sources: Hugging Face transformers, models/helium; mlx-lm, models/helium.py. Checkpoints: Helium
// 1 of 2B, MLX conversions included.

import "headroom/engine/checkpoint"

const heliumRopeTheta = 1e5 // the default of rope_theta

func loadHelium(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-8, 4096
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	c.LayerTypes, c.RopeTraditional = nil, false
	if err := c.check(w); err != nil {
		return nil, err
	}
	c.RopeTraditional = true
	return c.similar(w, heliumRopeTheta, attentionOptions{qkvBias: c.AttentionBias})
}

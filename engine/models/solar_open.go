package models

// Solar Open has the layers of GLM-4.5, each with experts.
//
// Sources: Hugging Face transformers, models/solar_open; mlx-lm, models/solar_open.py. Checkpoints:
// Solar Open 100B, MLX conversions included.

import "headroom/engine/checkpoint"

const solarRopeTheta = 1e6 // the default of rope_theta

func loadSolarOpen(w *checkpoint.Weights) (Model, error) {
	c := newGLM4MoEConfig()
	return c.load(w, checkpoint.RopeDefaults{Theta: solarRopeTheta})
}

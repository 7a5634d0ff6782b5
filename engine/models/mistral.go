package models

// Mistral has the layers of Llama. If sliding_window is set, every layer sees a window.
//
// Sources: Jiang et al. 2023, "Mistral 7B"; Hugging Face transformers, models/mistral. Checkpoints:
// Mistral 7B, Nemo, Small 24B and Devstral Small, MLX conversions included.

import "headroom/engine/checkpoint"

const mistralRopeTheta = 1e4 // the default of rope_theta

func loadMistral(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.MaxPositionEmbeddings = 131072
	if err := c.readSliding(w); err != nil {
		return nil, err
	}
	return c.similar(w, mistralRopeTheta, attentionOptions{})
}

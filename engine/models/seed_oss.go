package models

// Seed-OSS has the layers of Llama, with biases in q_proj, k_proj and v_proj. attention_out_bias
// says whether o_proj has one too.
//
// Sources: Hugging Face transformers, models/seed_oss; mlx-lm, models/seed_oss.py. Checkpoints:
// Seed-OSS 36B, MLX conversions included.

import "headroom/engine/checkpoint"

const seedOSSRopeTheta = 1e4 // the default of rope_theta

type seedOSSConfig struct {
	decoderConfig
	AttentionOutBias bool `json:"attention_out_bias"`
}

func loadSeedOSS(w *checkpoint.Weights) (Model, error) {
	c := seedOSSConfig{decoderConfig: newDecoderConfig()}
	c.MaxPositionEmbeddings, c.HeadDim, c.AttentionBias = 524288, 128, true
	if err := c.read(w, &c); err != nil {
		return nil, err
	}
	return c.similar(w, seedOSSRopeTheta, attentionOptions{
		qkvBias: c.AttentionBias, outputBias: c.AttentionOutBias})
}

package models

// Llama has pre-norm layers of grouped-query attention with rotation and a SwiGLU MLP. The layers
// of most other architectures are variations of its layers.
//
// Sources: Touvron et al. 2023, "LLaMA"; The Llama 3 Herd of Models (2024); Hugging Face
// transformers, models/llama; mlx-lm, models/llama.py. Checkpoints: Llama 1 to 3.3, Hermes,
// DeepSeek-R1-Distill-Llama, SmolLM2, Granite Code (with biases), and all others with this
// model_type, MLX conversions included.

import "headroom/engine/checkpoint"

const llamaRopeTheta = 1e4 // the default of rope_theta

func loadLlama(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.MaxPositionEmbeddings = 2048
	if err := c.read(w, &c); err != nil {
		return nil, err
	}
	return c.similar(w, llamaRopeTheta, c.llamaAttention())
}

// llamaAttention returns the options of attention in Llama.
func (c *decoderConfig) llamaAttention() attentionOptions {
	return attentionOptions{qkvBias: c.AttentionBias, outputBias: c.AttentionBias}
}

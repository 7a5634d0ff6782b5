package models

// dots.llm1 has grouped-query attention with norms of queries and keys, and the experts of
// DeepSeek-V3.
//
// Sources: rednote-hilab 2025, "dots.llm1 Technical Report"; Hugging Face transformers,
// models/dots1; mlx-lm, models/dots1.py. Checkpoints: dots.llm1 143B-A14B, MLX conversions
// included.

import "headroom/engine/checkpoint"

func loadDots1(w *checkpoint.Weights) (Model, error) {
	c := newGLM4MoEConfig()
	c.alwaysQKNorm, c.outputBias, c.NormTopKProb = true, true, false
	return c.load(w, checkpoint.RopeDefaults{Theta: llamaRopeTheta})
}

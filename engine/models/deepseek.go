package models

// DeepSeek-MoE has the attention of Llama. Its first layers have an MLP, and the others experts
// beside shared ones. The weights of experts are a softmax over all of them.
//
// Sources: Dai et al. 2024, "DeepSeekMoE: Towards Ultimate Expert Specialization in
// Mixture-of-Experts Language Models"; mlx-lm, models/deepseek.py, which never divides the weights
// by their sum. Checkpoints: DeepSeek-MoE 16B and DeepSeek-LLM under that name, MLX conversions
// included.

import "headroom/engine/checkpoint"

func loadDeepseek(w *checkpoint.Weights) (Model, error) {
	c := newGLM4MoEConfig()
	c.MaxPositionEmbeddings, c.TopKMethod = 2048, greedyChoice
	c.NormTopKProb, c.outputBias = false, true
	return c.load(w, checkpoint.RopeDefaults{Theta: llamaRopeTheta})
}

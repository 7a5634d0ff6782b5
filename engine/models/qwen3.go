package models

// Qwen3 (dense) has pre-norm layers of grouped-query attention and a SwiGLU MLP. Each query and key
// head has an RMSNorm before RoPE.
//
// Sources: Qwen3 Technical Report (2025); Hugging Face transformers, models/qwen3. Checkpoints:
// Qwen3-0.6B to 32B, MLX conversions included, and the language model of Qwen3-VL, in which the
// positions of text are those of Qwen3 and no layer has a window. Its embedding of images is not
// read.

import (
	"strings"

	"headroom/engine/checkpoint"
)

// The defaults of rope_theta.
const (
	qwen3RopeTheta   = 1e4
	qwen3VLRopeTheta = 5e5
)

func loadQwen3(w *checkpoint.Weights) (Model, error) {
	c := newQwen2Config()
	c.noWindow = isQwen3VL(w)
	if err := c.read(w); err != nil {
		return nil, err
	}
	return c.similar(w, qwen3Theta(w), c.qwen3Attention())
}

func isQwen3VL(w *checkpoint.Weights) bool {
	return strings.HasPrefix(w.Config.ModelType, "qwen3_vl")
}

// qwen3Theta returns the default of rope_theta, also for mixtures of experts.
func qwen3Theta(w *checkpoint.Weights) float64 {
	if isQwen3VL(w) {
		return qwen3VLRopeTheta
	}
	return qwen3RopeTheta
}

// qwen3Attention returns the options of attention in Qwen3.
func (c *decoderConfig) qwen3Attention() attentionOptions {
	o := c.llamaAttention()
	o.headNorm = true
	return o
}

package models

// Qwen3 (dense) has pre-norm layers of grouped-query attention and a SwiGLU MLP. Each query and key
// head has an RMSNorm before RoPE.
//
// Sources: Qwen3 Technical Report (2025); Hugging Face transformers, models/qwen3. Checkpoints:
// Qwen3-0.6B to 32B, MLX conversions included, and the language model of Qwen3-VL, in which the
// positions of text are those of Qwen3. Its embedding of images is not read.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
)

const qwen3RopeTheta = 1e6 // the default of rope_theta

func loadQwen3(w *checkpoint.Weights) (Model, error) {
	c := newQwen2Config()
	if err := c.read(w); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, qwen3RopeTheta)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.layer(s, c.qwen3Attention(rope)), c.memory(i)
	}
	return from.load(w, &c.decoderConfig), nil
}

// qwen3Attention returns the options of attention in Qwen3.
func (c *decoderConfig) qwen3Attention(rope ops.Rope) attentionOptions {
	o := c.llamaAttention(rope)
	o.headNorm = true
	return o
}

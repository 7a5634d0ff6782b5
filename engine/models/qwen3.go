package models

// Qwen3 (dense) has pre-norm layers of grouped-query attention and a SwiGLU MLP. Each query and key
// head has an RMSNorm before RoPE.
//
// Sources: Qwen3 Technical Report (2025); Hugging Face transformers, models/qwen3. Checkpoints:
// Qwen3-0.6B to 32B, MLX conversions included.

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

const qwen3RopeTheta = 1e6 // the default of rope_theta

type qwen3Config struct{ decoderConfig }

func (c *qwen3Config) validate(modelType string) error {
	faults := c.resolve()
	return validate(modelType,
		append(faults, positive("intermediate_size", c.IntermediateSize))...)
}

func loadQwen3(w *checkpoint.Weights) (Model, error) {
	c := qwen3Config{decoderConfig{RMSNormEps: defaultRMSNormEps}}
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w.Config.ModelType); err != nil {
		return nil, err
	}
	invFreq, err := invFreq(w, qwen3RopeTheta, c.HeadDim)
	if err != nil {
		return nil, err
	}
	return decoderWeights{
		model:  w.At("model."),
		lmHead: "lm_head",
		layer: func(_ int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
			return c.layer(s, invFreq, func(s checkpoint.Scope) feedForward {
				mlp := loadMLP(s, c.HiddenSize, c.IntermediateSize)
				return &mlp
			}), c.attentionSpec()
		},
	}.load(w, &c.decoderConfig), nil
}

// layer loads a layer. mlp loads its feed-forward part from the given scope.
func (c *qwen3Config) layer(s checkpoint.Scope, invFreq kernels.Tensor,
	mlp func(checkpoint.Scope) feedForward) *qwen3Layer {
	attn := s.Sub("self_attn")
	return &qwen3Layer{
		inputLayernorm:         s.Vector("input_layernorm.weight", c.HiddenSize, 0),
		postAttentionLayernorm: s.Vector("post_attention_layernorm.weight", c.HiddenSize, 0),
		mlp:                    mlp(s.Sub("mlp")),
		selfAttn:               loadAttention(attn, &c.decoderConfig, invFreq, false, 0),
	}
}

type qwen3Layer struct {
	inputLayernorm         kernels.Tensor
	selfAttn               nn.Attention
	postAttentionLayernorm kernels.Tensor
	mlp                    feedForward
}

func (l *qwen3Layer) inputNorm() kernels.Tensor { return l.inputLayernorm }

func (l *qwen3Layer) forward(c *ops.Context, b *batch.Batch, h, x kernels.Tensor,
	memory cache.Layer, eps float32) kernels.Tensor {
	x = l.selfAttn.Forward(c, b, x, memory)
	return l.mlp.Forward(c, c.AddRMSNorm(h, x, l.postAttentionLayernorm, eps))
}

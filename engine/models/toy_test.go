package models

// A toy architecture, which shows that a new architecture needs no more than one file and one
// registry entry. Its layers have attention and no MLP.

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// LoadToy loads the toy architecture. The test adds it to the registry.
func LoadToy(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := validate(w.Config.ModelType, c.resolve()...); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, checkpoint.RopeDefaults{Theta: 1e4})
	if err != nil {
		return nil, err
	}
	return decoderWeights{
		model: w.At("model."),
		head:  w.At(""),
		layer: func(_ int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
			return &toyLayer{
				norm: s.Vector("input_layernorm.weight", c.HiddenSize, 0),
				attn: c.attention(s.Sub("self_attn"), attentionOptions{rope: rope, headNorm: true}),
			}, c.attentionSpec()
		},
	}.load(w, &c), nil
}

type toyLayer struct {
	norm kernels.Tensor
	attn *nn.Attention
}

func (l *toyLayer) inputNorm() kernels.Tensor { return l.norm }

func (l *toyLayer) forward(c *ops.Context, b *batch.Batch, _, x, _ kernels.Tensor,
	memory cache.Layer, _ float32) kernels.Tensor {
	return l.attn.Forward(c, b, x, memory)
}

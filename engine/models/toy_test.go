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

type toyConfig struct{ decoderConfig }

func (c *toyConfig) validate(modelType string) error { return validate(modelType, c.resolve()...) }

// LoadToy loads the toy architecture. The test adds it to the registry.
func LoadToy(w *checkpoint.Weights) (Model, error) {
	c := toyConfig{decoderConfig{RMSNormEps: defaultRMSNormEps}}
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w.Config.ModelType); err != nil {
		return nil, err
	}
	invFreq, err := invFreq(w, 1e4, c.HeadDim)
	if err != nil {
		return nil, err
	}
	return decoderWeights{
		model:  w.At("model."),
		lmHead: "lm_head",
		layer: func(_ int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
			return &toyLayer{
				norm: s.Vector("input_layernorm.weight", c.HiddenSize, 0),
				attn: loadAttention(s.Sub("self_attn"), &c.decoderConfig, invFreq, false, 0),
			}, c.attentionSpec()
		},
	}.load(w, &c.decoderConfig), nil
}

type toyLayer struct {
	norm kernels.Tensor
	attn nn.Attention
}

func (l *toyLayer) inputNorm() kernels.Tensor { return l.norm }

func (l *toyLayer) forward(c *ops.Context, b *batch.Batch, _, x kernels.Tensor, memory cache.Layer,
	_ float32) kernels.Tensor {
	return l.attn.Forward(c, b, x, memory)
}

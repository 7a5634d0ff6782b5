package models

// Layers with LayerNorm instead of RMSNorm, and with feed-forward parts that read the same norm as
// attention (parallel) or one of their own (serial).

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/kernels"
)

// centredLayer implements decoderLayer. Without beforeMLP its two parts are parallel.
type centredLayer struct {
	beforeMixer, beforeMLP layerNorm
	mixer                  mixer
	mlp                    feedForward
}

// inputNorm returns none: the layer computes its norms itself.
func (l *centredLayer) inputNorm() kernels.Tensor { return kernels.Tensor{} }

func (l *centredLayer) forward(c *ops.Context, b *batch.Batch, h, _, _ kernels.Tensor,
	memory cache.Layer, _ float32) kernels.Tensor {
	x := l.beforeMixer.forward(c, h)
	y := l.mixer.Forward(c, b, x, memory)
	if l.beforeMLP.weight.IsNone() {
		return c.Add(y, l.mlp.Forward(c, x))
	}
	c.AddTo(h, h, y)
	return l.mlp.Forward(c, l.beforeMLP.forward(c, h))
}

// layerNormConfig holds the keys of architectures with LayerNorm.
type layerNormConfig struct {
	decoderConfig
	LayerNormEps float32 `json:"layer_norm_eps"`
	NormEpsilon  float32 `json:"norm_epsilon"` // another name of layer_norm_eps
	NormEps      float32 `json:"norm_eps"`     // and another one

	normOffset float32 // added to the weights of norms
	normBias   bool
}

func newLayerNormConfig() layerNormConfig {
	return layerNormConfig{decoderConfig: newDecoderConfig(), LayerNormEps: 1e-5}
}

// decode decodes config.json into config, which embeds c, and sets the epsilon of norms.
func (c *layerNormConfig) decode(w *checkpoint.Weights, config any) error {
	if err := w.Config.Decode(config); err != nil {
		return err
	}
	for _, named := range []struct {
		key string
		eps float32
	}{{"layer_norm_eps", c.LayerNormEps}, {"norm_epsilon", c.NormEpsilon},
		{"norm_eps", c.NormEps}} {
		if named.eps != 0 {
			c.RMSNormEps = named.eps
			c.rename("rms_norm_eps", named.key)
		}
	}
	return nil
}

func (c *layerNormConfig) norm(s checkpoint.Scope, name string) layerNorm {
	n := layerNorm{weight: s.Vector(name+".weight", c.HiddenSize, c.normOffset),
		eps: c.RMSNormEps}
	if c.normBias {
		n.bias = s.Vector(name+".bias", c.HiddenSize, 0)
	}
	return n
}

// load loads a decoder of layers with LayerNorm. rotates says which layers rotate, and mlp loads
// the feed-forward part of a layer.
func (c *layerNormConfig) load(w *checkpoint.Weights, d checkpoint.RopeDefaults,
	o attentionOptions, parallel bool, rotates func(layer int) bool,
	mlp func(s checkpoint.Scope) feedForward) (*decoder, error) {
	rope, err := c.rope(w, d)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		o := o
		if rotates == nil || rotates(i) {
			o.rope = rope
		}
		l := &centredLayer{
			beforeMixer: c.norm(s, "input_layernorm"),
			mixer:       c.attention(s.Sub("self_attn"), o),
			mlp:         mlp(s.Sub("mlp")),
		}
		if !parallel {
			l.beforeMLP = c.norm(s, "post_attention_layernorm")
		}
		return l, c.memory(i)
	}
	from.centred = c
	return from.load(w, &c.decoderConfig), nil
}

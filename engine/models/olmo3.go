package models

// OLMo 3 has layers of grouped-query attention and a SwiGLU MLP. Norms are after both parts, not
// before them, and normalize the whole projection of queries and of keys. Every fourth layer has
// full attention, whose context YaRN extends. The others have a sliding window.
//
// Sources: OLMo 3 Technical Report (2025); Hugging Face transformers, models/olmo3; mlx-lm,
// models/olmo3.py. Checkpoints: Olmo 3 7B and 32B and Olmo 3.1 32B, MLX conversions included.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
)

const (
	olmo3RopeTheta = 5e5 // the default of rope_theta
	olmo3Interval  = 4   // of the layers with full attention, without layer_types
)

func loadOLMo3(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.RMSNormEps, c.MaxPositionEmbeddings, c.SlidingWindow = 1e-5, 2048, 4096
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if len(c.LayerTypes) == 0 {
		c.LayerTypes, _ = c.layerTypes(nil, olmo3Interval, slidingAttention)
	}
	if err := c.check(w); err != nil {
		return nil, err
	}
	ropes, err := c.olmo3Ropes(w)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.olmo3Layer(s, ropes[c.LayerTypes[i]]), c.memory(i)
	}
	return from.load(w, &c), nil
}

// olmo3Ropes returns the rotary position embedding of each kind of layer. New configs have an entry
// for each kind in rope_parameters. In old configs, rope_scaling applies to full attention only.
func (c *decoderConfig) olmo3Ropes(w *checkpoint.Weights) (map[string]ops.Rope, error) {
	outer, err := w.Config.Rope(checkpoint.RopeDefaults{Theta: olmo3RopeTheta})
	if err != nil {
		return nil, err
	}
	ropes := map[string]ops.Rope{}
	for _, kind := range []string{fullAttention, slidingAttention} {
		r, nested, err := w.Config.LayerRope(kind, checkpoint.RopeDefaults{Theta: outer.Theta})
		if err != nil {
			return nil, err
		}
		if !nested && kind == fullAttention {
			r = outer
		}
		if ropes[kind], err = newRope(w, r, c.HeadDim); err != nil {
			return nil, err
		}
	}
	return ropes, nil
}

func (c *decoderConfig) olmo3Layer(s checkpoint.Scope, rope ops.Rope) *transformerLayer {
	o := c.llamaAttention()
	o.rope, o.wideNorm = rope, true
	return c.postNormLayer(s, o)
}

// postNormLayer loads the layer s, which has a norm after each part and none before it.
func (c *decoderConfig) postNormLayer(s checkpoint.Scope, o attentionOptions) *transformerLayer {
	return &transformerLayer{
		norms: layerNorms{
			afterMixer: s.Vector("post_attention_layernorm.weight", c.HiddenSize, 0),
			afterMLP:   s.Vector("post_feedforward_layernorm.weight", c.HiddenSize, 0),
		},
		mlp:   c.mlp(s.Sub("mlp")),
		mixer: c.attention(s.Sub("self_attn"), o),
	}
}

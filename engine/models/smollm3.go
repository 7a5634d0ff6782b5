package models

// SmolLM3 has the layers of Llama. Every fourth layer does not rotate its queries and keys (NoPE).
//
// Sources: Bakouch et al. 2025, "SmolLM3"; Yang et al. 2025, "RoPE to NoRoPE and Back Again";
// Hugging Face transformers, models/smollm3; mlx-lm, models/smollm3.py. Checkpoints: SmolLM3 3B,
// MLX conversions included.

import (
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
)

const smolLM3RopeTheta = 2e6 // the default of rope_theta

type smolLM3Config struct {
	decoderConfig
	NoRopeLayers        []int `json:"no_rope_layers"` // one for each layer; 0: it does not rotate
	NoRopeLayerInterval int   `json:"no_rope_layer_interval"`
	UseSlidingWindow    bool  `json:"use_sliding_window"` // in the layers that do not rotate
}

func newSmolLM3Config() smolLM3Config {
	c := smolLM3Config{decoderConfig: newDecoderConfig(), NoRopeLayerInterval: 4}
	c.MaxPositionEmbeddings, c.TieWordEmbeddings = 32768, true
	return c
}

func loadSmolLM3(w *checkpoint.Weights) (Model, error) {
	c := newSmolLM3Config()
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, checkpoint.RopeDefaults{Theta: smolLM3RopeTheta})
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		o := c.llamaAttention()
		if o.rope = rope; c.NoRopeLayers[i] == 0 {
			o.rope = ops.Rope{}
		}
		return c.layer(s, o), c.memory(i)
	}
	return from.load(w, &c.decoderConfig), nil
}

// validate checks the config. Then every layer has an entry in NoRopeLayers.
func (c *smolLM3Config) validate(w *checkpoint.Weights) error {
	if err := validate(w.Config.ModelType, layers("num_hidden_layers", c.NumHiddenLayers),
		positive("no_rope_layer_interval", c.NoRopeLayerInterval)); err != nil {
		return err
	}
	if len(c.NoRopeLayers) == 0 {
		for i := range c.NumHiddenLayers {
			c.NoRopeLayers = append(c.NoRopeLayers, (i+1)%c.NoRopeLayerInterval)
		}
	}
	if len(c.NoRopeLayers) != c.NumHiddenLayers {
		return validate(w.Config.ModelType, fmt.Errorf("no_rope_layers has %d entries for "+
			"num_hidden_layers of %d", len(c.NoRopeLayers), c.NumHiddenLayers))
	}
	c.slide()
	return c.check(w)
}

// slide gives layers a sliding window only if use_sliding_window is true, and without layer_types
// those that do not rotate.
func (c *smolLM3Config) slide() {
	if !c.UseSlidingWindow {
		c.LayerTypes = nil
		return
	}
	if len(c.LayerTypes) > 0 || c.SlidingWindow == 0 {
		return
	}
	for _, rotates := range c.NoRopeLayers {
		kind := fullAttention
		if rotates == 0 {
			kind = slidingAttention
		}
		c.LayerTypes = append(c.LayerTypes, kind)
	}
}

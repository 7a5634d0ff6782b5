package models

// EXAONE 4 has norms after both parts of a layer, and for each head of queries and keys. Three of
// four layers have a sliding window and rotate, and the others have full attention and do not. In
// models without windows every layer has full attention and rotates.
//
// Sources: EXAONE 4.0 (2025); Hugging Face transformers, models/exaone4; mlx-lm, models/exaone4.py.
// Checkpoints: EXAONE 4.0 1.2B and 32B, MLX conversions included.

import (
	"encoding/json"
	"fmt"

	"headroom/engine/checkpoint"
	"headroom/engine/ops"
)

const exaone4RopeTheta = 1e4 // the default of rope_theta

type exaone4Config struct {
	decoderConfig
	// SlidingWindowPattern is the pattern of layers without layer_types: letters, of which L has a
	// window, or the distance of the layers with full attention.
	SlidingWindowPattern json.RawMessage `json:"sliding_window_pattern"`
}

func loadEXAONE4(w *checkpoint.Weights) (Model, error) {
	c := exaone4Config{decoderConfig: newDecoderConfig()}
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-5, 2048
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	windows := c.SlidingWindow > 0
	if err := validate(w.Config.ModelType, c.readPattern()); err != nil {
		return nil, err
	}
	if err := c.check(w); err != nil {
		return nil, err
	}
	return c.alike(w, checkpoint.RopeDefaults{Theta: exaone4RopeTheta}, c.llamaAttention(),
		func(i int, s checkpoint.Scope, o attentionOptions) decoderLayer {
			if o.headNorm = true; windows && c.LayerTypes[i] == fullAttention {
				o.rope = ops.Rope{}
			}
			return c.postNormLayer(s, o)
		})
}

// readPattern sets LayerTypes if config.json does not.
func (c *exaone4Config) readPattern() error {
	if c.SlidingWindow == 0 {
		c.LayerTypes = nil
		return nil
	}
	if len(c.LayerTypes) > 0 || len(c.SlidingWindowPattern) == 0 ||
		string(c.SlidingWindowPattern) == "null" {
		return nil
	}
	var letters string
	interval := 0
	if json.Unmarshal(c.SlidingWindowPattern, &letters) != nil &&
		json.Unmarshal(c.SlidingWindowPattern, &interval) != nil || letters == "" && interval < 1 {
		return fmt.Errorf("sliding_window_pattern is %s, expected letters or a number",
			c.SlidingWindowPattern)
	}
	for i := range min(c.NumHiddenLayers, maxLayers) {
		kind := fullAttention
		if letters != "" && letters[i%len(letters)] == 'L' ||
			interval > 0 && (i+1)%interval != 0 {
			kind = slidingAttention
		}
		c.LayerTypes = append(c.LayerTypes, kind)
	}
	return nil
}

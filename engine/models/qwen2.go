package models

// Qwen2 and Qwen2.5 have the layers of Llama with biases in q_proj, k_proj and v_proj. If
// use_sliding_window is true, the layers from max_window_layers on see a window, unless
// sliding_window is null.
//
// Sources: Qwen2 Technical Report (2024); Hugging Face transformers, models/qwen2. Checkpoints:
// Qwen2 and Qwen2.5 of 0.5B to 72B, DeepSeek-R1-Distill-Qwen, MLX conversions included.

import "headroom/engine/checkpoint"

const qwen2RopeTheta = 1e4 // the default of rope_theta

type qwen2Config struct {
	decoderConfig
	UseSlidingWindow bool `json:"use_sliding_window"` // false: all layers have full attention
	MaxWindowLayers  int  `json:"max_window_layers"`

	noWindow bool // the architecture has no windows, whatever the keys are
}

func newQwen2Config() qwen2Config {
	c := qwen2Config{decoderConfig: newDecoderConfig(), MaxWindowLayers: 28}
	c.MaxPositionEmbeddings, c.SlidingWindow = 32768, 4096
	return c
}

// read reads config.json. Without use_sliding_window, layer_types does not matter.
func (c *qwen2Config) read(w *checkpoint.Weights) error {
	if err := w.Config.Decode(c); err != nil {
		return err
	}
	if w.Config.IsNull("sliding_window") {
		c.SlidingWindow = 0 // null is not the default
	}
	if c.UseSlidingWindow && !c.noWindow {
		c.slideFrom(c.MaxWindowLayers) // old configs have no layer_types
	} else {
		c.LayerTypes = nil
	}
	return c.check(w)
}

func loadQwen2(w *checkpoint.Weights) (Model, error) {
	c := newQwen2Config()
	if err := c.read(w); err != nil {
		return nil, err
	}
	return c.similar(w, qwen2RopeTheta, attentionOptions{qkvBias: true})
}

package models

// Gemma 3 has layers of grouped-query attention. Every sixth layer has full attention, and the
// others have a sliding window. The two kinds have different rotary frequencies. There are norms
// before and after both attention and the GEGLU MLP. Embeddings are scaled by sqrt(hidden) and tied
// to the head.
//
// In EmbeddingGemma, a token also sees those that follow.
//
// Sources: Gemma 3 Technical Report (2025); Hugging Face transformers, models/gemma3; mlx-lm,
// models/gemma3_text.py. Checkpoints: the text models (gemma3_text) and the text part of the
// multimodal models (gemma3), MLX conversions included. All store norm weights zero-centred.

import (
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
)

const gemma3RopeTheta = 1e6 // the default of rope_theta for full attention

type gemma3Config struct {
	gemmaConfig
	SlidingWindowPattern int     `json:"sliding_window_pattern"`
	RopeLocalBaseFreq    float64 `json:"rope_local_base_freq"`
}

// newGemma3Config returns the defaults of transformers. Multimodal checkpoints omit many keys.
func newGemma3Config() gemma3Config {
	c := gemma3Config{
		gemmaConfig:          newGemma2Config(),
		SlidingWindowPattern: 6,
		RopeLocalBaseFreq:    1e4,
	}
	c.VocabSize, c.MaxPositionEmbeddings = 262208, 131072
	c.AttnLogitSoftcap, c.FinalLogitSoftcap = nil, nil
	return c
}

// ropes returns the rotary position embedding of each kind of layer. New configs have an entry for
// each kind in rope_parameters. In old configs, rope_theta and rope_scaling apply to full attention
// only.
func (c *gemma3Config) ropes(w *checkpoint.Weights) (map[string]ops.Rope, error) {
	full, nested, err := w.Config.LayerRope(fullAttention,
		checkpoint.RopeDefaults{Theta: gemma3RopeTheta})
	if err == nil && !nested {
		full, err = w.Config.Rope(checkpoint.RopeDefaults{Theta: gemma3RopeTheta})
	}
	if err != nil {
		return nil, err
	}
	sliding, _, err := w.Config.LayerRope(slidingAttention,
		checkpoint.RopeDefaults{Theta: c.RopeLocalBaseFreq, ThetaKey: "rope_local_base_freq"})
	if err != nil {
		return nil, err
	}
	ropes := map[string]ops.Rope{}
	if ropes[fullAttention], err = newRope(w, full, c.HeadDim); err != nil {
		return nil, err
	}
	ropes[slidingAttention], err = newRope(w, sliding, c.HeadDim)
	return ropes, err
}

func loadGemma3(w *checkpoint.Weights) (Model, error) {
	c := newGemma3Config()
	c.bidirectional = true
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	// transformers reads the cap of the scores, and does not apply it.
	if c.AttnLogitSoftcap != nil {
		return nil, unsupported(w, "attn_logit_softcapping is %g, expected none",
			*c.AttnLogitSoftcap)
	}
	if err := positive("sliding_window_pattern", c.SlidingWindowPattern); err != nil {
		return nil, validate(w.Config.ModelType, err)
	}
	if err := c.validate(w, c.SlidingWindowPattern); err != nil {
		return nil, err
	}
	ropes, err := c.ropes(w)
	if err != nil {
		return nil, err
	}
	o := attentionOptions{scale: c.scale(), headNorm: true}
	return c.load(w, o, func(i int) ops.Rope { return ropes[c.LayerTypes[i]] }), nil
}

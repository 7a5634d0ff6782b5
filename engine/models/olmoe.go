package models

// OLMoE has a mixture of experts in every layer. Norms are before both parts, and normalize the
// whole projection of queries and of keys.
//
// Sources: Muennighoff et al. 2024, "OLMoE"; Hugging Face transformers, models/olmoe; mlx-lm,
// models/olmoe.py. Checkpoints: OLMoE-1B-7B, MLX conversions included.

import "headroom/engine/checkpoint"

const olmoeRopeTheta = 1e4 // the default of rope_theta

type olmoeConfig struct {
	decoderConfig
	mixtureConfig
	ClipQKV *float64 `json:"clip_qkv"`
}

func loadOLMoE(w *checkpoint.Weights) (Model, error) {
	c := olmoeConfig{decoderConfig: newDecoderConfig()}
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-5, 4096
	c.NumExperts, c.NumExpertsPerTok = 64, 8
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if c.ClipQKV != nil {
		return nil, unsupported(w, "clip_qkv is %g, expected null", *c.ClipQKV)
	}
	c.LayerTypes = nil
	if err := c.validateUniform(w, &c.decoderConfig); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	o.wideNorm = true
	return c.alike(w, checkpoint.RopeDefaults{Theta: olmoeRopeTheta}, o,
		func(i int, s checkpoint.Scope, o attentionOptions) decoderLayer {
			return &transformerLayer{norms: c.preNorms(s, 0),
				mlp:   c.mixtureConfig.load(s.Sub("mlp"), i, &c.decoderConfig),
				mixer: c.attention(s.Sub("self_attn"), o)}
		})
}

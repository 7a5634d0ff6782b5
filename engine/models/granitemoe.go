package models

// Granite 3 as a mixture of experts has the multipliers of Granite, and experts instead of the MLP.
//
// Sources: Hugging Face transformers, models/granitemoe; mlx-lm, models/granitemoe.py. Checkpoints:
// Granite 3.0 and 3.1 1B-A400M and 3B-A800M, MLX conversions included.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
)

type graniteMoEConfig struct {
	graniteConfig
	mixtureConfig
}

func loadGraniteMoE(w *checkpoint.Weights) (Model, error) {
	c := graniteMoEConfig{graniteConfig: newGraniteConfig()}
	c.TieWordEmbeddings, c.NormTopKProb = true, true
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	c.localExperts(&c.decoderConfig)
	if err := validate(w.Config.ModelType, c.checkMultipliers()...); err != nil {
		return nil, err
	}
	if err := c.validateUniform(w, &c.decoderConfig); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	o.scale = float32(c.AttentionMultiplier)
	var err error
	if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: graniteRopeTheta}); err != nil {
		return nil, err
	}
	return c.graniteConfig.load(w,
		func(i int, s checkpoint.Scope) (*transformerLayer, cache.LayerSpec) {
			m := c.routerMoE(s.Sub("block_sparse_moe"), &c.decoderConfig)
			return &transformerLayer{norms: c.preNorms(s, 0), mlp: m,
				mixer: c.attention(s.Sub("self_attn"), o)}, c.memory(i)
		}), nil
}

// routerMoE loads the mixture of experts s of Granite, whose router is router.layer.
func (c *mixtureConfig) routerMoE(s checkpoint.Scope, d *decoderConfig) *nn.MoE {
	return &nn.MoE{
		Gate:      s.Linear("router.layer", c.NumExperts, d.HiddenSize),
		SwitchMLP: loadExperts(s, c.NumExperts, d.HiddenSize, c.MoEIntermediateSize),
		Routing:   ops.Routing{TopK: c.NumExpertsPerTok, Normalize: c.NormTopKProb},
	}
}

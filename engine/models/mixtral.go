package models

// Mixtral has the layers of Mistral, with a mixture of experts instead of the MLP.
//
// Sources: Jiang et al. 2024, "Mixtral of Experts"; Hugging Face transformers, models/mixtral;
// mlx-lm, models/mixtral.py. Checkpoints: Mixtral 8x7B and 8x22B and their fine-tunes, MLX
// conversions included. Originals have a module w1, w2 and w3 for each expert.

import "headroom/engine/checkpoint"

const mixtralRopeTheta = 1e6 // the default of rope_theta

type mixtralConfig struct {
	decoderConfig
	mixtureConfig
}

func loadMixtral(w *checkpoint.Weights) (Model, error) {
	c := mixtralConfig{decoderConfig: newDecoderConfig()}
	c.RMSNormEps, c.MaxPositionEmbeddings, c.NormTopKProb = 1e-5, 131072, true
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	c.localExperts(&c.decoderConfig)
	c.slideFrom(0)
	if err := c.validateUniform(w, &c.decoderConfig); err != nil {
		return nil, err
	}
	return c.alike(w, checkpoint.RopeDefaults{Theta: mixtralRopeTheta}, attentionOptions{},
		func(i int, s checkpoint.Scope, o attentionOptions) decoderLayer {
			return &transformerLayer{norms: c.preNorms(s, 0),
				mlp:   c.mixtureConfig.load(moeBlock(s), i, &c.decoderConfig),
				mixer: c.attention(s.Sub("self_attn"), o)}
		})
}

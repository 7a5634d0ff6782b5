package models

// MiniMax-M2 has attention that normalizes the whole projection of queries and of keys and rotates
// a part of each head, and a mixture of experts in every layer. The router has sigmoids and a bias
// that only the choice of experts sees.
//
// Sources: Hugging Face transformers, models/minimax_m2; mlx-lm, models/minimax.py. Checkpoints:
// MiniMax-M2 and M2.1, in FP8 or converted.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
)

const minimaxRopeTheta = 5e6 // the default of rope_theta

type minimaxConfig struct {
	decoderConfig
	mixtureConfig
	RotaryDim   int    `json:"rotary_dim"` // of each head; 0: what partial_rotary_factor says
	UseQKNorm   bool   `json:"use_qk_norm"`
	ScoringFunc string `json:"scoring_func"`
}

func loadMiniMaxM2(w *checkpoint.Weights) (Model, error) {
	c := minimaxConfig{decoderConfig: newDecoderConfig(), UseQKNorm: true, ScoringFunc: "sigmoid"}
	c.NormTopKProb = true
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	r, err := w.Config.Rope(checkpoint.RopeDefaults{Theta: minimaxRopeTheta})
	if err != nil {
		return nil, err
	}
	if c.RotaryDim > 0 {
		r.PartialFactor = float64(c.RotaryDim) / float64(c.HeadDim)
	}
	o := attentionOptions{wideNorm: c.UseQKNorm}
	if o.rope, err = newRope(w, r, c.HeadDim); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return &transformerLayer{
			norms: c.preNorms(s, 0),
			mlp:   c.experts(moeBlock(s)),
			mixer: c.attention(s.Sub("self_attn"), o),
		}, c.memory(i)
	}
	return from.load(w, &c.decoderConfig), nil
}

func (c *minimaxConfig) validate(w *checkpoint.Weights) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	if c.ScoringFunc != "sigmoid" {
		return unsupported(w, "scoring_func is %q, expected sigmoid", c.ScoringFunc)
	}
	c.LayerTypes = nil
	c.MoEIntermediateSize = c.IntermediateSize
	c.rename("moe_intermediate_size", "intermediate_size")
	c.localExperts(&c.decoderConfig)
	faults := append(c.decoderConfig.resolve(), c.mixtureConfig.resolve(&c.decoderConfig)...)
	if c.NumExperts == 0 { // otherwise resolve has checked it
		faults = append(faults, positive(c.key("num_experts"), 0))
	}
	if c.RotaryDim != 0 {
		faults = append(faults, atMost("rotary_dim", c.RotaryDim, "head_dim", c.HeadDim))
	}
	return validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...)
}

// experts loads the mixture of experts s.
func (c *minimaxConfig) experts(s checkpoint.Scope) feedForward {
	return &nn.MoE{
		Routing: ops.Routing{TopK: c.NumExpertsPerTok, Sigmoid: true, Normalize: true,
			Epsilon: routerEps, Bias: s.Vector("e_score_correction_bias", c.NumExperts, 0)},
		Gate:      s.Linear("gate", c.NumExperts, c.HiddenSize),
		SwitchMLP: loadExperts(s, c.NumExperts, c.HiddenSize, c.MoEIntermediateSize),
	}
}

package models

// Muse Glimmer has a norm before and after each part of a layer, and one after the embedding, which
// has no weight. Three of four layers have a sliding window and rotate, and the others have full
// attention and do not. Heads of queries and keys are normalized without weights, and queries
// multiplied by a constant. The output of attention is gated by the sigmoid of a projection of its
// input.
//
// Sources: Hugging Face transformers, models/muse_glimmer; mlx-lm, models/muse_glimmer.py.
// Checkpoints: Muse Glimmer 30B, the language model, MLX conversions included.

import (
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/kernels"
)

const (
	glimmerRopeTheta = 5e5 // the default of rope_theta
	glimmerInterval  = 4   // of the layers with full attention, back from the last
)

type glimmerConfig struct {
	decoderConfig
	HiddenActivation string  `json:"hidden_activation"`
	PostNormEps      float32 `json:"post_norm_eps"` // of the norms after attention and MLP
	QKScaleFactor    float64 `json:"qk_scale_factor"`
	OutputMultiplier float64 `json:"output_multiplier"` // of the logits, before their cap
	LogitSoftcap     float64 `json:"final_logit_softcapping"`
	// LayerRopeTheta is 0 for a layer that does not rotate. As in transformers, the others have the
	// base of the rope parameters.
	LayerRopeTheta []float64 `json:"layer_rope_theta"`
}

func loadMuseGlimmer(w *checkpoint.Weights) (Model, error) {
	c := glimmerConfig{decoderConfig: newDecoderConfig(), HiddenActivation: "silu",
		PostNormEps: 1e-8, QKScaleFactor: 3.87, OutputMultiplier: 0.19611613513818404,
		LogitSoftcap: 20}
	c.RMSNormEps, c.MaxPositionEmbeddings, c.SlidingWindow = 1e-5, 131072, 2048
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, checkpoint.RopeDefaults{Theta: glimmerRopeTheta})
	if err != nil {
		return nil, err
	}
	qNorm, kNorm := scale(ones(w, c.HeadDim), float32(c.QKScaleFactor)), ones(w, c.HeadDim)
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		o := c.llamaAttention()
		o.ownGate = true
		if c.LayerRopeTheta[i] != 0 {
			o.rope = rope
		}
		a := c.attention(s.Sub("self_attn"), o)
		a.QNorm, a.KNorm = qNorm, kNorm
		return c.glimmerLayer(s, a), c.memory(i)
	}
	m := from.load(w, &c.decoderConfig)
	m.embedNorm = ones(w, c.HiddenSize)
	m.norm = scale(m.norm, float32(c.OutputMultiplier))
	m.logitCap = float32(c.LogitSoftcap)
	return m, nil
}

// validate checks the config, and sets the kinds of layers if there are none.
func (c *glimmerConfig) validate(w *checkpoint.Weights) error {
	c.HiddenAct = c.HiddenActivation
	if !c.isSiLU() {
		return unsupported(w, "hidden_activation is %q, expected silu", c.HiddenAct)
	}
	full := func(i int) bool { return (c.NumHiddenLayers-1-i)%glimmerInterval == 0 }
	kinds, thetas := []string{}, []float64{}
	for i := range min(c.NumHiddenLayers, maxLayers) {
		kind, theta := slidingAttention, float64(glimmerRopeTheta)
		if full(i) {
			kind, theta = fullAttention, 0
		}
		kinds, thetas = append(kinds, kind), append(thetas, theta)
	}
	if len(c.LayerTypes) == 0 {
		c.LayerTypes = kinds
	}
	if len(c.LayerRopeTheta) == 0 {
		c.LayerRopeTheta = thetas
	}
	if err := c.check(w); err != nil {
		return err
	}
	faults := []error{epsilon("post_norm_eps", c.PostNormEps),
		positiveNumber("qk_scale_factor", &c.QKScaleFactor),
		positiveNumber("output_multiplier", &c.OutputMultiplier),
		positiveNumber("final_logit_softcapping", &c.LogitSoftcap)}
	if n := len(c.LayerRopeTheta); n != c.NumHiddenLayers {
		faults = append(faults, fmt.Errorf("layer_rope_theta has %d entries for "+
			"num_hidden_layers of %d", n, c.NumHiddenLayers))
	}
	return validate(w.Config.ModelType, faults...)
}

// glimmerLayer loads the norms and the MLP of the layer s.
func (c *glimmerConfig) glimmerLayer(s checkpoint.Scope, a *nn.Attention) *transformerLayer {
	norm := func(name string) kernels.Tensor {
		return s.Vector(name+".weight", c.HiddenSize, gemmaNormOffset)
	}
	return &transformerLayer{afterEps: c.PostNormEps, mixer: a, mlp: c.mlp(s.Sub("mlp")),
		norms: layerNorms{
			beforeMixer: norm("input_layernorm"),
			afterMixer:  norm("post_attention_layernorm"),
			beforeMLP:   norm("pre_feedforward_layernorm"),
			afterMLP:    norm("post_feedforward_layernorm"),
		}}
}

package models

// AFMoE has a norm before and after each part of a layer. Layers with a sliding window rotate, and
// those with full attention do not. Queries and keys are normalized by head, and the output of
// attention is gated by the sigmoid of a projection of its input. After the first layers, which
// have an MLP, experts stand beside shared ones. Embeddings are scaled by sqrt(hidden).
//
// Sources: Hugging Face transformers, models/afmoe; mlx-lm, models/afmoe.py. Checkpoints: Trinity
// Nano, Mini and Large, MLX conversions included.

import (
	"fmt"
	"math"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

const (
	afmoeRopeTheta = 1e4 // the default of rope_theta
	afmoeInterval  = 4   // of the layers with full attention, without layer_types
)

type afmoeConfig struct {
	decoderConfig
	mixtureConfig
	SharedExperts int     `json:"num_shared_experts"`
	RouteNorm     bool    `json:"route_norm"`
	RouteScale    float64 `json:"route_scale"`
	ScoreFunc     string  `json:"score_func"`
	NGroup        int     `json:"n_group"`
	FullInterval  int     `json:"global_attn_every_n_layers"`
	MuP           bool    `json:"mup_enabled"`
}

func loadAFMoE(w *checkpoint.Weights) (Model, error) {
	c := afmoeConfig{decoderConfig: newDecoderConfig(), RouteNorm: true, RouteScale: 1,
		ScoreFunc: "sigmoid", NGroup: 1, SharedExperts: 2, FullInterval: afmoeInterval}
	c.RMSNormEps, c.MaxPositionEmbeddings, c.SlidingWindow, c.NumDenseLayers = 1e-5, 16384, 1024, 1
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	rope, err := c.rope(w, checkpoint.RopeDefaults{Theta: afmoeRopeTheta})
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		o := c.llamaAttention()
		o.headNorm, o.ownGate = true, true
		if c.LayerTypes[i] == slidingAttention {
			o.rope = rope
		}
		norm := func(name string) kernels.Tensor {
			return s.Vector(name+".weight", c.HiddenSize, 0)
		}
		return &transformerLayer{
			norms: layerNorms{beforeMixer: norm("input_layernorm"),
				afterMixer: norm("post_attention_layernorm"),
				beforeMLP:  norm("pre_mlp_layernorm"), afterMLP: norm("post_mlp_layernorm")},
			mixer: c.attention(s.Sub("self_attn"), o),
			mlp:   c.feedForward(w, s.Sub("mlp"), i),
		}, c.memory(i)
	}
	m := from.load(w, &c.decoderConfig)
	if c.MuP {
		m.embedScale = float32(math.Sqrt(float64(c.HiddenSize)))
	}
	return m, nil
}

// validate checks the config, and sets the kinds of layers if there are none.
func (c *afmoeConfig) validate(w *checkpoint.Weights) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	if c.ScoreFunc != "sigmoid" || c.NGroup > 1 {
		return unsupported(w, "score_func is %q and n_group %d, expected sigmoid and 1",
			c.ScoreFunc, c.NGroup)
	}
	var err error
	if len(c.LayerTypes) == 0 && c.FullInterval > 0 {
		c.LayerTypes, err = c.layerTypes(nil, c.FullInterval, slidingAttention)
	}
	c.DecoderSparseStep, c.MLPOnlyLayers, c.SharedExpertIntermediateSize = 1, nil, 0
	faults := append(c.decoderConfig.resolve(), err,
		positiveNumber("route_scale", &c.RouteScale))
	faults = append(faults, c.mixtureConfig.resolve(&c.decoderConfig)...)
	if c.SharedExperts < 0 || c.SharedExperts*c.MoEIntermediateSize > maxDimension {
		faults = append(faults, fmt.Errorf("num_shared_experts is %d", c.SharedExperts))
	}
	return validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...)
}

// feedForward loads the MLP or the experts s of a layer.
func (c *afmoeConfig) feedForward(w *checkpoint.Weights, s checkpoint.Scope,
	layer int) feedForward {
	if !c.sparse(layer) {
		mlp := loadMLP(s, c.HiddenSize, c.IntermediateSize)
		return &mlp
	}
	m := &nn.MoE{
		Routing: ops.Routing{TopK: c.NumExpertsPerTok, Normalize: c.RouteNorm, Sigmoid: true,
			Epsilon: routerEps, Bias: s.Vector("expert_bias", c.NumExperts, 0),
			Scale: scale(ones(w, c.NumExperts), float32(c.RouteScale))},
		Gate:      s.Linear("router.gate", c.NumExperts, c.HiddenSize),
		SwitchMLP: loadExperts(s, c.NumExperts, c.HiddenSize, c.MoEIntermediateSize),
	}
	if n := c.SharedExperts * c.MoEIntermediateSize; n > 0 {
		shared := loadMLP(s.Sub("shared_experts"), c.HiddenSize, n)
		m.SharedExpert = &shared
	}
	return m
}

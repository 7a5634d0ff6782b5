package models

// ERNIE 4.5 has the layers of Llama, and rotates each dimension of a head with the next one. In the
// mixtures, some layers have experts beside an MLP that sees every token.
//
// Sources: Hugging Face transformers, models/ernie4_5 and ernie4_5_moe; mlx-lm,
// models/ernie4_5.py and ernie4_5_moe.py. Checkpoints: ERNIE 4.5 0.3B and 21B-A3B, MLX conversions
// included. The bias of the router, which only originals have, counts for the choice of experts
// alone.

import (
	"encoding/json"
	"fmt"
	"slices"

	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
)

const ernieRopeTheta = 5e5 // the default of rope_theta

type ernieConfig struct {
	decoderConfig
	UseBias bool `json:"use_bias"` // of all projections

	// The keys of the mixtures. The first and the last layer with experts may be lists, with an
	// entry for text and one for images.
	Experts             int             `json:"moe_num_experts"`
	TopK                int             `json:"moe_k"`
	MoEIntermediateSize int             `json:"moe_intermediate_size"`
	SharedExperts       int             `json:"moe_num_shared_experts"`
	LayerInterval       int             `json:"moe_layer_interval"`
	LayerStart          json.RawMessage `json:"moe_layer_start_index"`
	LayerEnd            json.RawMessage `json:"moe_layer_end_index"`
	GateAct             string          `json:"moe_gate_act"`
	NormMin             float32         `json:"moe_norm_min"` // of the sum of the weights

	first, last int // of the layers with experts
}

func loadERNIE(w *checkpoint.Weights) (Model, error) {
	c := ernieConfig{decoderConfig: newDecoderConfig(), TopK: 1, LayerInterval: 1,
		GateAct: "softmax", NormMin: 1e-12}
	c.RMSNormEps, c.MaxPositionEmbeddings, c.TieWordEmbeddings = 1e-5, 131072, true
	if err := c.read(w, &c); err != nil {
		return nil, err
	}
	mixture := w.Config.ModelType == "ernie4_5_moe"
	if mixture {
		if err := c.checkMixture(w); err != nil {
			return nil, err
		}
	}
	c.MLPBias, c.RopeTraditional = c.UseBias, true
	o := attentionOptions{qkvBias: c.UseBias, outputBias: c.UseBias}
	return c.alike(w, checkpoint.RopeDefaults{Theta: ernieRopeTheta}, o,
		func(i int, s checkpoint.Scope, o attentionOptions) decoderLayer {
			if !mixture || i < c.first || i > c.last || (i+1)%c.LayerInterval != 0 {
				return c.layer(s, o)
			}
			return &transformerLayer{norms: c.preNorms(s, 0), mlp: c.mixture(s.Sub("mlp")),
				mixer: c.attention(s.Sub("self_attn"), o)}
		})
}

// checkMixture checks the keys of the mixtures and sets the layers with experts.
func (c *ernieConfig) checkMixture(w *checkpoint.Weights) error {
	if c.UseBias || c.GateAct != "softmax" {
		return unsupported(w, "use_bias %t and moe_gate_act %q, expected false and softmax",
			c.UseBias, c.GateAct)
	}
	if c.MoEIntermediateSize == 0 {
		c.MoEIntermediateSize = c.IntermediateSize
	}
	var starts, ends []int
	faults := []error{
		positive("moe_num_experts", c.Experts),
		positive("moe_k", c.TopK),
		positive("moe_intermediate_size", c.MoEIntermediateSize),
		positive("moe_layer_interval", c.LayerInterval),
		epsilon("moe_norm_min", c.NormMin),
		readIntegers("moe_layer_start_index", c.LayerStart, &starts),
		readIntegers("moe_layer_end_index", c.LayerEnd, &ends),
	}
	if c.TopK > c.Experts {
		faults = append(faults, fmt.Errorf("moe_k is %d, but moe_num_experts is %d", c.TopK,
			c.Experts))
	}
	if c.SharedExperts != 0 {
		faults = append(faults, positive("moe_num_shared_experts", c.SharedExperts))
	}
	if c.last = c.NumHiddenLayers - 1; len(starts) > 0 {
		c.first = slices.Min(starts)
	}
	if len(ends) > 0 && slices.Max(ends) >= 0 { // -1: the last
		c.last = slices.Max(ends)
	}
	return validate(w.Config.ModelType, faults...)
}

// readIntegers sets list to a number in JSON or to a list of numbers. Nothing or null is none.
func readIntegers(key string, text json.RawMessage, list *[]int) error {
	var one int
	switch {
	case len(text) == 0 || string(text) == "null":
		return nil
	case json.Unmarshal(text, &one) == nil:
		*list = []int{one}
		return nil
	case json.Unmarshal(text, list) == nil:
		return nil
	}
	return fmt.Errorf("%s is %s, expected a number or a list of numbers", key, text)
}

// mixture loads the experts s.
func (c *ernieConfig) mixture(s checkpoint.Scope) feedForward {
	m := &nn.MoE{Routing: ops.Routing{TopK: c.TopK, Normalize: true, Epsilon: c.NormMin},
		Gate:      s.Linear("gate", c.Experts, c.HiddenSize),
		SwitchMLP: loadExperts(s, c.Experts, c.HiddenSize, c.MoEIntermediateSize)}
	if bias := "moe_statics.e_score_correction_bias"; s.Has(bias) {
		m.Bias = s.Vector(bias, c.Experts, 0)
	}
	if n := c.SharedExperts; n > 0 {
		shared := loadMLP(s.Sub("shared_experts"), c.HiddenSize, n*c.MoEIntermediateSize)
		m.SharedExpert = &shared
	}
	return m
}

package models

// The mixture of experts of DeepSeek, which GLM 4 and Kimi K2 share. The first layers have an MLP,
// and all others have routed experts beside shared ones. The router of DeepSeek-V3 has sigmoids,
// and a correction bias that only the choice of experts sees. That of DeepSeek-V2 has a softmax.
// Both may choose within the best groups of experts alone.
//
// Sources: DeepSeek-AI 2024, "DeepSeek-V2" and "DeepSeek-V3 Technical Report"; Hugging Face
// transformers, models/deepseek_v2, deepseek_v3 and glm4_moe; mlx-lm, models of the same names.

import (
	"fmt"
	"slices"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/kernels"
)

// The values of topk_method.
const (
	noAuxLoss    = "noaux_tc" // sigmoids with a correction bias
	groupLimited = "group_limited_greedy"
	greedyChoice = "greedy" // without groups
)

// The values in mlp_layer_types: an MLP or experts.
const (
	denseLayer  = "dense"
	sparseLayer = "sparse"
)

type deepseekMoEConfig struct {
	mixtureConfig
	routerConfig
	NRoutedExperts     int    `json:"n_routed_experts"`
	NSharedExperts     int    `json:"n_shared_experts"`
	TopKMethod         string `json:"topk_method"`
	ScoringFunc        string `json:"scoring_func"` // only sigmoid with noaux_tc
	FirstKDenseReplace int    `json:"first_k_dense_replace"`
	MoELayerFreq       int    `json:"moe_layer_freq"`
	// MLPLayerTypes, "dense" or "sparse" for each layer, replaces the two keys above.
	MLPLayerTypes []string `json:"mlp_layer_types"`
}

// newDeepseekMoEConfig returns the defaults.
func newDeepseekMoEConfig() deepseekMoEConfig {
	return deepseekMoEConfig{mixtureConfig: mixtureConfig{NormTopKProb: true},
		routerConfig: newRouterConfig(), TopKMethod: noAuxLoss, MoELayerFreq: 1}
}

// resolve sets the keys of mixtureConfig and checks all. It returns an error, or nil, for each
// check.
func (c *deepseekMoEConfig) resolve(d *decoderConfig) []error {
	c.NumExperts, c.NumLocalExperts, c.NumDenseLayers = c.NRoutedExperts, 0, c.FirstKDenseReplace
	d.rename("num_experts", "n_routed_experts")
	faults := []error{c.resolveLayers(d)}
	if c.TopKMethod == greedyChoice {
		c.NGroup, c.TopKGroup = 1, 1
	}
	faults = append(faults, c.mixtureConfig.resolve(d)...)
	faults = append(faults,
		positive("moe_layer_freq", c.MoELayerFreq),
		positiveNumber("routed_scaling_factor", &c.RoutedScalingFactor))
	if c.NSharedExperts != 0 {
		faults = append(faults, positive("n_shared_experts", c.NSharedExperts),
			positive("n_shared_experts times moe_intermediate_size",
				c.NSharedExperts*c.MoEIntermediateSize))
	}
	known := []string{noAuxLoss, groupLimited, greedyChoice}
	if !slices.Contains(known, c.TopKMethod) {
		faults = append(faults, fmt.Errorf("topk_method is %q, expected %s", c.TopKMethod,
			strings.Join(known, ", ")))
	}
	if f := c.ScoringFunc; c.TopKMethod == noAuxLoss && f != "" && f != "sigmoid" &&
		f != noAuxLoss { // which dots.llm1 has there
		faults = append(faults, fmt.Errorf("scoring_func is %q, expected sigmoid", f))
	}
	return append(faults, c.checkGroups())
}

// checkMLPLayerTypes returns an error unless there are no kinds, or a known one for each layer.
func checkMLPLayerTypes(kinds []string, layers int) error {
	if n := len(kinds); n > 0 && n != layers {
		return fmt.Errorf("mlp_layer_types has %d entries for num_hidden_layers of %d", n, layers)
	}
	for i, kind := range kinds {
		if kind != denseLayer && kind != sparseLayer {
			return fmt.Errorf("mlp_layer_types[%d] is %.40q, expected %s or %s", i, kind,
				denseLayer, sparseLayer)
		}
	}
	return nil
}

// resolveLayers sets the layers that have an MLP.
func (c *deepseekMoEConfig) resolveLayers(d *decoderConfig) error {
	c.DecoderSparseStep, c.MLPOnlyLayers = 1, nil
	if err := checkMLPLayerTypes(c.MLPLayerTypes, d.NumHiddenLayers); err != nil {
		return err
	}
	if len(c.MLPLayerTypes) > 0 {
		c.NumDenseLayers, c.MoELayerFreq = 0, 1
	}
	for i := range min(d.NumHiddenLayers, maxLayers) {
		dense := i%max(c.MoELayerFreq, 1) != 0
		if i < len(c.MLPLayerTypes) {
			dense = c.MLPLayerTypes[i] == denseLayer
		}
		if dense {
			c.MLPOnlyLayers = append(c.MLPOnlyLayers, i)
		}
	}
	return nil
}

// checkGroups checks that ops.Routing can choose the experts.
func (c *deepseekMoEConfig) checkGroups() error {
	err := c.routerConfig.checkGroups(c.NumExperts, c.NumExpertsPerTok)
	if err == nil && c.NGroup > 1 && c.NumExperts/c.NGroup < 2 && c.TopKMethod == noAuxLoss {
		err = fmt.Errorf("n_group is %d for %d experts, expected two or more experts in a group",
			c.NGroup, c.NumExperts)
	}
	return err
}

// load loads the feed-forward part s of a layer.
func (c *deepseekMoEConfig) load(w *checkpoint.Weights, s checkpoint.Scope, layer int,
	d *decoderConfig) feedForward {
	if !c.sparse(layer) {
		mlp := loadMLP(s, d.HiddenSize, d.IntermediateSize)
		return &mlp
	}
	var bias kernels.Tensor
	if c.TopKMethod == noAuxLoss {
		bias = s.Vector("gate.e_score_correction_bias", c.NumExperts, 0)
	}
	m := &nn.MoE{
		Routing:   c.routing(w, c.NumExperts, c.NumExpertsPerTok, c.NormTopKProb, bias),
		Gate:      s.Linear("gate", c.NumExperts, d.HiddenSize),
		SwitchMLP: loadExperts(s, c.NumExperts, d.HiddenSize, c.MoEIntermediateSize),
	}
	if n := c.NSharedExperts * c.MoEIntermediateSize; n > 0 {
		shared := loadMLP(s.Sub("shared_experts"), d.HiddenSize, n)
		m.SharedExpert = &shared
	}
	return m
}

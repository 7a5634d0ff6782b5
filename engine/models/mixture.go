package models

// Mixtures of experts: the keys of config.json that architectures share, and the loading of a
// layer's feed-forward part, which is a mixture in some layers and an MLP in others.

import (
	"fmt"
	"slices"

	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// mixtureConfig holds the keys of config.json that mixtures of experts have in common. NumExperts
// is 0 in models without experts.
type mixtureConfig struct {
	NumExperts                   int   `json:"num_experts"`
	NumLocalExperts              int   `json:"num_local_experts"` // another name of num_experts
	NumExpertsPerTok             int   `json:"num_experts_per_tok"`
	MoEIntermediateSize          int   `json:"moe_intermediate_size"`
	SharedExpertIntermediateSize int   `json:"shared_expert_intermediate_size"` // 0: none
	NormTopKProb                 bool  `json:"norm_topk_prob"`
	DecoderSparseStep            int   `json:"decoder_sparse_step"` // 0: every layer has experts
	MLPOnlyLayers                []int `json:"mlp_only_layers"`
	NumDenseLayers               int   `json:"num_dense_layers"` // the first ones have no experts
}

// resolve sets num_experts if it has its other name, and checks the keys. It returns an error, or
// nil, for each check.
func (c *mixtureConfig) resolve(d *decoderConfig) []error {
	if c.NumExperts == 0 && c.NumLocalExperts != 0 {
		c.localExperts(d)
		c.NumExperts = c.NumLocalExperts
	}
	if n := len(c.MLPOnlyLayers); n > maxLayers {
		return []error{fmt.Errorf("mlp_only_layers has %d entries, expected at most %d", n,
			maxLayers)}
	}
	var faults []error
	dense, sparse := c.split(d.NumHiddenLayers)
	if dense {
		faults = append(faults, positive("intermediate_size", d.IntermediateSize))
	}
	if !sparse {
		return faults
	}
	if c.NumExpertsPerTok > c.NumExperts {
		faults = append(faults, fmt.Errorf("%s is %d, but %s is %d",
			d.key("num_experts_per_tok"), c.NumExpertsPerTok, d.key("num_experts"), c.NumExperts))
	}
	if c.SharedExpertIntermediateSize != 0 {
		faults = append(faults, positive("shared_expert_intermediate_size",
			c.SharedExpertIntermediateSize))
	}
	return append(faults,
		positive(d.key("num_experts"), c.NumExperts),
		positive(d.key("num_experts_per_tok"), c.NumExpertsPerTok),
		positive(d.key("moe_intermediate_size"), c.MoEIntermediateSize))
}

// localExperts has errors say num_local_experts unless config.json has num_experts.
func (c *mixtureConfig) localExperts(d *decoderConfig) {
	if c.NumExperts == 0 {
		d.rename("num_experts", "num_local_experts")
	}
}

// sparse reports whether a layer has experts.
func (c *mixtureConfig) sparse(layer int) bool {
	return c.NumExperts != 0 && layer >= c.NumDenseLayers &&
		(layer+1)%max(c.DecoderSparseStep, 1) == 0 &&
		!slices.Contains(c.MLPOnlyLayers, layer)
}

// split reports whether any of the layers have an MLP, and whether any have experts.
func (c *mixtureConfig) split(layers int) (dense, sparse bool) {
	for i := range min(layers, maxLayers) {
		dense, sparse = dense || !c.sparse(i), sparse || c.sparse(i)
	}
	return dense, sparse
}

// load loads the feed-forward part s of a layer.
func (c *mixtureConfig) load(s checkpoint.Scope, layer int, d *decoderConfig) feedForward {
	if !c.sparse(layer) {
		mlp := loadMLP(s, d.HiddenSize, d.IntermediateSize)
		return &mlp
	}
	m := &nn.MoE{Routing: ops.Routing{TopK: c.NumExpertsPerTok, Normalize: c.NormTopKProb}}
	if n := c.SharedExpertIntermediateSize; n > 0 {
		shared := loadMLP(s.Sub("shared_expert"), d.HiddenSize, n)
		m.SharedExpert = &shared
	}
	m.Gate = s.Linear("gate", c.NumExperts, d.HiddenSize)
	m.SwitchMLP = loadExperts(s, c.NumExperts, d.HiddenSize, c.MoEIntermediateSize)
	if m.SharedExpert != nil {
		m.SharedExpertGate = s.Linear("shared_expert_gate", 1, d.HiddenSize)
	}
	return m
}

// validateUniform checks the keys of an architecture whose layers all have experts with SiLU, of
// the size intermediate_size.
func (c *mixtureConfig) validateUniform(w *checkpoint.Weights, d *decoderConfig) error {
	if err := d.checkSiLU(w); err != nil {
		return err
	}
	c.MoEIntermediateSize, c.NumDenseLayers, c.MLPOnlyLayers = d.IntermediateSize, 0, nil
	d.rename("moe_intermediate_size", "intermediate_size")
	faults := append(d.resolve(), c.resolve(d)...)
	if c.NumExperts == 0 { // otherwise resolve has checked it
		faults = append(faults, positive(d.key("num_experts"), 0))
	}
	return validate(w.Config.ModelType, append(faults, d.fillLayerTypes()...)...)
}

// routerEps is what the router of DeepSeek and its followers add to the sum by which they divide
// the weights of a row.
const routerEps = 1e-20

// routerConfig holds the keys of the router of DeepSeek, which has groups of experts and a factor
// of their weights.
type routerConfig struct {
	NGroup              int     `json:"n_group"`
	TopKGroup           int     `json:"topk_group"`
	RoutedScalingFactor float64 `json:"routed_scaling_factor"`
}

// checkGroups checks that ops.Routing can choose topK of some experts.
func (c *routerConfig) checkGroups(experts, topK int) error {
	if experts == 0 {
		return nil
	}
	if err := divides("n_group", c.NGroup, "n_routed_experts", experts); err != nil {
		return err
	}
	size := experts / c.NGroup
	switch {
	case c.NGroup > ops.MaxExpertGroups:
		return fmt.Errorf("n_group is %d, expected at most %d", c.NGroup, ops.MaxExpertGroups)
	case c.TopKGroup < 1 || c.TopKGroup > c.NGroup || topK > c.TopKGroup*size:
		return fmt.Errorf("topk_group is %d of %d groups of %d experts, expected groups with at "+
			"least num_experts_per_tok of %d experts", c.TopKGroup, c.NGroup, size, topK)
	}
	return nil
}

// newRouterConfig returns the defaults.
func newRouterConfig() routerConfig {
	return routerConfig{NGroup: 1, TopKGroup: 1, RoutedScalingFactor: 1}
}

// routing returns the routing to topK of some experts. It has sigmoids if there is a correction
// bias [1, experts], which only the choice of experts sees, and otherwise a softmax.
func (c *routerConfig) routing(w *checkpoint.Weights, experts, topK int, normalize bool,
	bias kernels.Tensor) ops.Routing {
	r := ops.Routing{TopK: topK, Normalize: normalize, Epsilon: routerEps, Bias: bias,
		Sigmoid: !bias.IsNone()}
	if c.NGroup > 1 {
		r.Groups, r.TopGroups = c.NGroup, c.TopKGroup
	}
	if c.RoutedScalingFactor != 1 {
		r.Scale = scale(ones(w, experts), float32(c.RoutedScalingFactor))
	}
	return r
}

// moeBlock returns the mixture of experts of a layer s: block_sparse_moe, or mlp in some writers'
// files.
func moeBlock(s checkpoint.Scope) checkpoint.Scope {
	if s.Has("mlp.gate.weight") && !s.Has("block_sparse_moe.gate.weight") {
		return s.Sub("mlp")
	}
	return s.Sub("block_sparse_moe")
}

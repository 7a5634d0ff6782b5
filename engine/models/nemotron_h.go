package models

// Nemotron-H and Nemotron 3 have layers of one part each: Mamba-2, attention without rotation, an
// MLP or a mixture of experts. A string has a letter for each layer. MLPs and experts have no gate,
// and their activation is the squared ReLU. The router has sigmoids, a bias that only the choice of
// experts sees, and groups of experts. The norm of Mamba-2 normalizes each group by itself.
//
// Sources: NVIDIA Nemotron 3 (2025) and Nemotron-H (2025); Hugging Face transformers,
// models/nemotron_h; mlx-lm, models/nemotron_h.py. Checkpoints: Nemotron-H 4B to 56B, Nemotron Nano
// 2 and Nemotron 3 Nano and Super, MLX conversions included. The experts are a module each, or in
// MLX conversions switch_mlp. time_step_limit limits the steps, as in mlx-lm; transformers 5 reads
// time_step_min instead.

import (
	"encoding/json"
	"fmt"
	"slices"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// nemotronKinds maps the names of layers in layers_block_type to the letters of the pattern.
var nemotronKinds = map[string]byte{
	"mamba": 'M', linearAttention: 'M', "conv": 'M', "attention": '*', fullAttention: '*',
	"mlp": '-', "moe": 'E',
}

var nemotronMambaKeys = mambaKeys{"n_groups", "mamba_num_heads", "mamba_head_dim",
	"ssm_state_size", "conv_kernel"}

type nemotronHConfig struct {
	decoderConfig
	mambaConfig
	// HybridOverridePattern is a string of letters, or a list of them.
	HybridOverridePattern json.RawMessage `json:"hybrid_override_pattern"`
	LayersBlockType       []string        `json:"layers_block_type"`
	LayerNormEpsilon      float32         `json:"layer_norm_epsilon"`
	MLPHiddenAct          string          `json:"mlp_hidden_act"`

	MambaNumHeads  int    `json:"mamba_num_heads"`
	MambaHeadDim   int    `json:"mamba_head_dim"`
	MambaProjBias  bool   `json:"mamba_proj_bias"`
	NGroups        int    `json:"n_groups"`
	SSMStateSize   int    `json:"ssm_state_size"`
	ConvKernel     int    `json:"conv_kernel"`
	UseConvBias    bool   `json:"use_conv_bias"`
	MambaHiddenAct string `json:"mamba_hidden_act"`

	routerConfig
	NRoutedExperts      int  `json:"n_routed_experts"`
	NSharedExperts      int  `json:"n_shared_experts"`
	NumExpertsPerTok    int  `json:"num_experts_per_tok"`
	MoEIntermediateSize int  `json:"moe_intermediate_size"`
	MoESharedSize       int  `json:"moe_shared_expert_intermediate_size"`
	MoELatentSize       int  `json:"moe_latent_size"` // 0: experts see all dimensions
	NormTopKProb        bool `json:"norm_topk_prob"`

	pattern    string
	patternKey string // the key that it is from
}

func loadNemotronH(w *checkpoint.Weights) (Model, error) {
	c := nemotronHConfig{decoderConfig: newDecoderConfig(), mambaConfig: newMambaConfig(),
		LayerNormEpsilon: 1e-5, MLPHiddenAct: "relu2", MambaHiddenAct: "silu", UseConvBias: true,
		NGroups: 1, NormTopKProb: true, routerConfig: newRouterConfig()}
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.embedding, from.norm = "embeddings", "norm_f"
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		l := &onePart{norm: s.Vector("norm.weight", c.HiddenSize, 0)}
		s = s.Sub("mixer")
		switch c.pattern[i] {
		case 'M':
			l.mixer = c.groupedMamba(w, s)
			return l, c.mambaSpec()
		case '*':
			l.mixer = c.attention(s, c.llamaAttention())
			return l, c.attentionSpec()
		case 'E':
			l.mlp = c.experts(w, s)
		default:
			l.mlp = c.plainMLP(s, c.IntermediateSize)
		}
		return l, cache.LayerSpec{}
	}
	from.blockLayer = func(s checkpoint.Scope, _ float32) (decoderLayer, cache.LayerSpec) {
		attention, experts := s.Sub("layers.0"), s.Sub("layers.1")
		return &transformerLayer{norms: layerNorms{
			beforeMixer: attention.Vector("norm.weight", c.HiddenSize, 0),
			beforeMLP:   experts.Vector("norm.weight", c.HiddenSize, 0),
		}, mixer: c.attention(attention.Sub("mixer"), c.llamaAttention()),
			mlp: c.experts(w, experts.Sub("mixer"))}, c.attentionSpec()
	}
	return from.load(w, &c.decoderConfig), nil
}

// onePart implements decoderLayer: a norm, and a mixer or a feed-forward part.
type onePart struct {
	norm  kernels.Tensor
	mixer mixer
	mlp   feedForward // if mixer is nil
}

func (l *onePart) inputNorm() kernels.Tensor { return l.norm }

func (l *onePart) forward(c *ops.Context, b *batch.Batch, _, x, _ kernels.Tensor,
	memory cache.Layer, _ float32) kernels.Tensor {
	if l.mixer != nil {
		return l.mixer.Forward(c, b, x, memory)
	}
	return l.mlp.Forward(c, x)
}

// validate checks the keys, and derives those of decoderConfig and mambaConfig from them.
func (c *nemotronHConfig) validate(w *checkpoint.Weights) error {
	if c.MLPHiddenAct != "relu2" || c.MambaHiddenAct != "silu" {
		return unsupported(w, "mlp_hidden_act %q and mamba_hidden_act %q, expected relu2 and silu",
			c.MLPHiddenAct, c.MambaHiddenAct)
	}
	if err := validate(w.Config.ModelType, c.readPattern()); err != nil {
		return err
	}
	if n := c.NumHiddenLayers; n != 0 && n != len(c.pattern) {
		return validate(w.Config.ModelType, fmt.Errorf("num_hidden_layers is %d, but %s has %d",
			n, c.patternKey, len(c.pattern)))
	}
	c.NumHiddenLayers, c.RMSNormEps = len(c.pattern), c.LayerNormEpsilon
	c.rename("rms_norm_eps", "layer_norm_epsilon")
	c.heads, c.headDim, c.groups = c.MambaNumHeads, c.MambaHeadDim, c.NGroups
	c.state, c.taps, c.convBias = c.SSMStateSize, c.ConvKernel, c.UseConvBias
	c.inBias, c.outBias = c.MambaProjBias, c.MambaProjBias
	faults := append(c.resolve(), c.resolveTimeStep())
	has := func(kind byte) bool { return slices.Contains([]byte(c.pattern), kind) }
	if has('M') {
		faults = append(faults, c.checkMamba(nemotronMambaKeys)...)
	}
	if has('-') {
		faults = append(faults, positive("intermediate_size", c.IntermediateSize))
	}
	if has('E') {
		faults = append(faults, c.checkExperts()...)
	}
	return validate(w.Config.ModelType, faults...)
}

// readPattern sets the pattern: a letter for each layer.
func (c *nemotronHConfig) readPattern() error {
	var list []string
	c.patternKey = "hybrid_override_pattern"
	switch text := c.HybridOverridePattern; {
	case len(text) > 0 && json.Unmarshal(text, &c.pattern) == nil && c.pattern != "":
	case len(text) > 0 && json.Unmarshal(text, &list) == nil && len(list) > 0:
		for _, letter := range list {
			c.pattern += letter
		}
	default:
		switch {
		case len(c.LayersBlockType) > 0:
			c.patternKey = "layers_block_type"
		case len(c.LayerTypes) > 0:
			c.patternKey, c.LayersBlockType = "layer_types", c.LayerTypes
		}
		for i, name := range c.LayersBlockType {
			kind, ok := nemotronKinds[name]
			if !ok {
				return fmt.Errorf("%s[%d] is %q, expected mamba, attention, mlp or moe",
					c.patternKey, i, modelfile.Excerpt(name))
			}
			c.pattern += string(kind)
		}
	}
	for i := range len(c.pattern) {
		if !slices.Contains([]byte("M*-E"), c.pattern[i]) {
			return fmt.Errorf("hybrid_override_pattern has the letter %q, expected M, *, - or E",
				c.pattern[i])
		}
	}
	return layers("the length of "+c.patternKey, len(c.pattern))
}

// checkExperts returns an error, or nil, for each key of the mixtures.
func (c *nemotronHConfig) checkExperts() []error {
	faults := []error{
		positive("n_routed_experts", c.NRoutedExperts),
		atMost("num_experts_per_tok", c.NumExpertsPerTok, "n_routed_experts", c.NRoutedExperts),
		positive("moe_intermediate_size", c.MoEIntermediateSize),
		positiveNumber("routed_scaling_factor", &c.RoutedScalingFactor),
		c.checkGroups(c.NRoutedExperts, c.NumExpertsPerTok),
	}
	if c.NSharedExperts > 0 {
		faults = append(faults, positive("moe_shared_expert_intermediate_size", c.MoESharedSize))
	}
	if c.MoELatentSize != 0 {
		faults = append(faults, positive("moe_latent_size", c.MoELatentSize))
	}
	return faults
}

// groupedMamba loads the Mamba-2 s, which normalizes each group by itself.
func (c *nemotronHConfig) groupedMamba(w *checkpoint.Weights, s checkpoint.Scope) *nn.Mamba2 {
	m := c.mamba(s, &c.decoderConfig)
	if c.groups > 1 {
		m.Ones = ones(w, c.heads*c.headDim/c.groups)
	}
	return m
}

// plainMLP loads the MLP s of n dimensions.
func (c *nemotronHConfig) plainMLP(s checkpoint.Scope, n int) *nn.PlainMLP {
	return &nn.PlainMLP{
		UpProj:   loadLinear(s, "up_proj", n, c.HiddenSize, c.MLPBias),
		DownProj: loadLinear(s, "down_proj", c.HiddenSize, n, c.MLPBias),
	}
}

// experts loads the mixture of experts s.
func (c *nemotronHConfig) experts(w *checkpoint.Weights, s checkpoint.Scope) *nn.PlainMoE {
	m := &nn.PlainMoE{
		Routing: c.routing(w, c.NRoutedExperts, c.NumExpertsPerTok, c.NormTopKProb,
			s.Vector("gate.e_score_correction_bias", c.NRoutedExperts, 0)),
		Gate: s.Linear("gate", c.NRoutedExperts, c.HiddenSize),
	}
	in := c.HiddenSize
	if c.MoELatentSize > 0 {
		in = c.MoELatentSize
		m.LatentIn = loadLinear(s, "fc1_latent_proj", in, c.HiddenSize, c.MLPBias)
		m.LatentOut = loadLinear(s, "fc2_latent_proj", c.HiddenSize, in, c.MLPBias)
	}
	m.UpProj, m.DownProj = loadPlainExperts(s, c.NRoutedExperts, in, c.MoEIntermediateSize)
	if c.NSharedExperts > 0 {
		m.SharedExpert = c.plainMLP(s.Sub("shared_experts"), c.MoESharedSize)
	}
	return m
}

// loadPlainExperts loads the experts of s, which have no gate: a module each, two plain stacks, or
// two modules of MLX.
func loadPlainExperts(s checkpoint.Scope, e, in, inner int) (up, down *kernels.Weight) {
	switch {
	case s.Has("switch_mlp.fc1.weight"):
		return s.Experts("switch_mlp.fc1", e, inner, in), s.Experts("switch_mlp.fc2", e, in, inner)
	case s.Has("experts.up_proj"):
		return s.Plain("experts.up_proj", e, inner, in), s.Plain("experts.down_proj", e, in, inner)
	}
	name := func(part string) func(int) string {
		return func(i int) string { return fmt.Sprintf("experts.%d.%s", i, part) }
	}
	return s.Stack(e, name("up_proj"), inner, in), s.Stack(e, name("down_proj"), in, inner)
}

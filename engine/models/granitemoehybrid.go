package models

// Granite 4 has the multipliers of Granite, and Mamba-2 in most layers. Its attention rotates only
// in models without Mamba-2. A layer ends with a mixture of experts beside an MLP, or with the MLP
// alone.
//
// Sources: Hugging Face transformers, models/granitemoehybrid; mlx-lm, models/granitemoehybrid.py
// and ssm.py. Checkpoints: Granite 4.0 of 350M to H-Small (32B-A9B), MLX conversions included. The
// MLP is shared_mlp with fused projections, or in MLX conversions without experts mlp. The experts
// are two fused tensors, or in MLX conversions three. The weights of a convolution are
// [C, 1, taps], or in MLX conversions [C, taps, 1]. All have one group. With several, transformers
// 5 normalizes each by itself, and mlx-lm all together, as here.

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
)

// The kinds of layers in layer_types; transformers 5 calls them linear_attention and
// full_attention.
const (
	mambaLayer     = "mamba"
	attentionLayer = "attention"
)

type graniteHybridConfig struct {
	graniteConfig
	mixtureConfig
	SharedIntermediateSize int    `json:"shared_intermediate_size"`
	PositionEmbeddingType  string `json:"position_embedding_type"` // only "rope" rotates
	// LayersBlockType is the older name of layer_types.
	LayersBlockType []string `json:"layers_block_type"`

	MambaNHeads   int  `json:"mamba_n_heads"`
	MambaDHead    int  `json:"mamba_d_head"`
	MambaNGroups  int  `json:"mamba_n_groups"`
	MambaDState   int  `json:"mamba_d_state"`
	MambaDConv    int  `json:"mamba_d_conv"` // taps
	MambaConvBias bool `json:"mamba_conv_bias"`
	MambaProjBias bool `json:"mamba_proj_bias"` // of in_proj and out_proj
	// TimeStepLimit has the least and the largest dt, by default 0 and infinity, as in
	// transformers. mlx-lm has 0.001 and 100.
	TimeStepLimit []json.RawMessage `json:"time_step_limit"`

	dtMin, dtMax float32
}

func newGraniteHybridConfig() graniteHybridConfig {
	c := graniteHybridConfig{graniteConfig: newGraniteConfig(), MambaNGroups: 1, MambaDState: 256,
		MambaDConv: 4, MambaConvBias: true, dtMax: math.MaxFloat32}
	c.TieWordEmbeddings = true
	return c
}

func loadGraniteHybrid(w *checkpoint.Weights) (Model, error) {
	c := newGraniteHybridConfig()
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	o.scale = float32(c.AttentionMultiplier)
	if c.PositionEmbeddingType == "rope" {
		var err error
		if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: graniteRopeTheta}); err != nil {
			return nil, err
		}
	}
	layer := func(i int, s checkpoint.Scope) (*transformerLayer, cache.LayerSpec) {
		l := &transformerLayer{norms: c.preNorms(s, 0), mlp: c.feedForward(s)}
		if c.LayerTypes[i] == fullAttention {
			l.mixer = c.attention(s.Sub("self_attn"), o)
			return l, c.attentionSpec()
		}
		l.mixer = c.mamba(s.Sub("mamba"))
		return l, cache.LayerSpec{ConvValues: (c.MambaDConv - 1) * c.channels(),
			ConvChannels: c.channels(), StateValues: c.MambaNHeads * c.MambaDHead * c.MambaDState,
			StateRow: c.MambaDState}
	}
	return c.graniteConfig.load(w, layer), nil
}

// validate checks the keys and derives those of decoderConfig from them.
func (c *graniteHybridConfig) validate(w *checkpoint.Weights) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	switch c.PositionEmbeddingType {
	case "rope", "nope", "":
	default:
		return unsupported(w, "position_embedding_type is %q, expected rope or nope",
			c.PositionEmbeddingType)
	}
	c.MoEIntermediateSize, c.NormTopKProb = c.IntermediateSize, true
	faults := append(c.checkMultipliers(), c.decoderConfig.resolve()...)
	faults = append(faults, c.mixtureConfig.resolve(&c.decoderConfig)...)
	faults = append(faults, positive("shared_intermediate_size", c.SharedIntermediateSize),
		c.resolveLayers(), c.resolveTimeStep())
	return validate(w.Config.ModelType, append(faults, c.checkMamba()...)...)
}

// resolveLayers gives every layer a kind in LayerTypes: full or linear attention.
func (c *graniteHybridConfig) resolveLayers() error {
	if len(c.LayerTypes) == 0 {
		c.LayerTypes = c.LayersBlockType
	}
	kinds := make([]string, len(c.LayerTypes))
	for i, kind := range c.LayerTypes {
		switch kinds[i] = kind; kind {
		case attentionLayer:
			kinds[i] = fullAttention
		case mambaLayer:
			kinds[i] = linearAttention
		}
	}
	var err error
	c.LayerTypes, err = c.layerTypes(kinds, 0, linearAttention)
	return err
}

// resolveTimeStep sets the limits of dt.
func (c *graniteHybridConfig) resolveTimeStep() error {
	if len(c.TimeStepLimit) == 0 {
		return nil
	}
	bad := fmt.Errorf("time_step_limit is %s, expected two numbers of at least 0, in ascending "+
		"order", c.TimeStepLimit)
	if len(c.TimeStepLimit) != 2 {
		return bad
	}
	for i, at := range []*float32{&c.dtMin, &c.dtMax} {
		if !readLimit(c.TimeStepLimit[i], at) {
			return bad
		}
	}
	if !(c.dtMin >= 0 && c.dtMin <= c.dtMax) {
		return bad
	}
	return nil
}

// readLimit sets limit to a number in JSON and reports whether it is one. Infinity, which JSON does
// not have, is a string from modelfile.Decode, and {"__float__": "Infinity"} from transformers 5.
func readLimit(text json.RawMessage, limit *float32) bool {
	if json.Unmarshal(text, limit) == nil {
		return true
	}
	var named struct {
		Float string `json:"__float__"`
	}
	if json.Unmarshal(text, &named.Float) != nil && json.Unmarshal(text, &named) != nil ||
		named.Float != "Infinity" {
		return false
	}
	*limit = math.MaxFloat32
	return true
}

// checkMamba checks the keys of Mamba-2, if a layer has it.
func (c *graniteHybridConfig) checkMamba() []error {
	if !slices.Contains(c.LayerTypes, linearAttention) {
		return nil
	}
	faults := []error{divides("mamba_n_groups", c.MambaNGroups, "mamba_n_heads", c.MambaNHeads),
		positive("mamba_d_head", c.MambaDHead)}
	if c.MambaDState < 1 || c.MambaDState > ops.MaxStateCols {
		faults = append(faults, fmt.Errorf("mamba_d_state is %d, expected 1 to %d", c.MambaDState,
			ops.MaxStateCols))
	}
	if c.MambaDConv < 2 || c.MambaDConv > ops.MaxTaps {
		faults = append(faults, fmt.Errorf("mamba_d_conv is %d, expected 2 to %d", c.MambaDConv,
			ops.MaxTaps))
	}
	return faults
}

// channels returns C, the number of channels of the convolution over x, B and C.
func (c *graniteHybridConfig) channels() int {
	return c.MambaNHeads*c.MambaDHead + 2*c.MambaNGroups*c.MambaDState
}

func (c *graniteHybridConfig) mamba(s checkpoint.Scope) *nn.Mamba2 {
	inner := c.MambaNHeads * c.MambaDHead
	l := &nn.Mamba2{
		InProj: loadLinear(s, "in_proj", inner+c.channels()+c.MambaNHeads, c.HiddenSize,
			c.MambaProjBias),
		OutProj: loadLinear(s, "out_proj", c.HiddenSize, inner, c.MambaProjBias),
		Conv1D:  s.Matrix("conv1d.weight", c.channels(), c.MambaDConv, 0),
		ALog:    s.Vector("A_log", c.MambaNHeads, 0),
		DtBias:  s.Vector("dt_bias", c.MambaNHeads, 0),
		D:       s.Vector("D", c.MambaNHeads, 0),
		Norm:    s.Vector("norm.weight", inner, 0),
		SSMShape: ops.SSMShape{Heads: c.MambaNHeads, Groups: c.MambaNGroups, Dim: c.MambaDHead,
			N: c.MambaDState, DtMin: c.dtMin, DtMax: c.dtMax},
		Eps: c.RMSNormEps,
	}
	if c.MambaConvBias {
		l.ConvBias = s.Vector("conv1d.bias", c.channels(), 0)
	}
	return l
}

// feedForward loads the MLP of layer s, or its experts with the MLP.
func (c *graniteHybridConfig) feedForward(s checkpoint.Scope) feedForward {
	if c.NumExperts == 0 && s.Has("mlp.gate_proj.weight") {
		return c.mlp(s.Sub("mlp"))
	}
	shared := c.sharedMLP(s.Sub("shared_mlp"))
	if c.NumExperts == 0 {
		return shared
	}
	m := c.routerMoE(s.Sub("block_sparse_moe"), &c.decoderConfig)
	m.SharedExpert = shared
	return m
}

// sharedMLP loads an MLP with fused projections.
func (c *graniteHybridConfig) sharedMLP(s checkpoint.Scope) *nn.MLP {
	n := c.SharedIntermediateSize
	parts := s.Split("input_linear", c.HiddenSize, n, n)
	return &nn.MLP{GateProj: nn.Linear{Weight: parts[0]}, UpProj: nn.Linear{Weight: parts[1]},
		DownProj: loadLinear(s, "output_linear", c.HiddenSize, n, false)}
}

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
	"fmt"
	"slices"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
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
	mambaConfig
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
}

func newGraniteHybridConfig() graniteHybridConfig {
	c := graniteHybridConfig{graniteConfig: newGraniteConfig(), mambaConfig: newMambaConfig(),
		MambaNGroups: 1, MambaDState: 256, MambaDConv: 4, MambaConvBias: true}
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
		l.mixer = c.mamba(s.Sub("mamba"), &c.decoderConfig)
		return l, c.mambaSpec()
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
	c.rename("moe_intermediate_size", "intermediate_size")
	faults := append(c.checkMultipliers(), c.decoderConfig.resolve()...)
	faults = append(faults, c.mixtureConfig.resolve(&c.decoderConfig)...)
	faults = append(faults, positive("shared_intermediate_size", c.SharedIntermediateSize),
		c.resolveLayers(), c.resolveTimeStep())
	c.heads, c.headDim, c.groups = c.MambaNHeads, c.MambaDHead, c.MambaNGroups
	c.state, c.taps, c.convBias = c.MambaDState, c.MambaDConv, c.MambaConvBias
	c.inBias, c.outBias = c.MambaProjBias, c.MambaProjBias
	if slices.Contains(c.LayerTypes, linearAttention) {
		faults = append(faults, c.checkMamba(olderMambaKeys)...)
	}
	return validate(w.Config.ModelType, faults...)
}

// resolveLayers gives every layer a kind in LayerTypes: full or linear attention.
func (c *graniteHybridConfig) resolveLayers() error {
	if len(c.LayerTypes) == 0 && len(c.LayersBlockType) > 0 {
		c.LayerTypes = c.LayersBlockType
		c.rename("layer_types", "layers_block_type")
	}
	kinds := make([]string, len(c.LayerTypes))
	for i, kind := range c.LayerTypes {
		switch kind {
		case attentionLayer, fullAttention:
			kinds[i] = fullAttention
		case mambaLayer, linearAttention:
			kinds[i] = linearAttention
		default:
			return fmt.Errorf("%s[%d] is %q, expected %s or %s", c.key("layer_types"), i,
				modelfile.Excerpt(kind), attentionLayer, mambaLayer)
		}
	}
	var err error
	c.LayerTypes, err = c.layerTypes(kinds, 0, linearAttention)
	return err
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

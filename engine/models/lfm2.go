package models

// LFM2, dense and mixture of experts, has gated short convolutions in most layers, and attention
// with a norm for each head in the others. The router of its experts has sigmoids and a bias that
// only the choice of experts sees.
//
// Sources: LFM2 Technical Report (2025); Hugging Face transformers, models/lfm2 and lfm2_moe;
// mlx-lm, models/lfm2.py and lfm2_moe.py. Checkpoints: LFM2 and LFM2.5 of 350M to 2.6B, LFM2-8B-A1B
// and LFM2-24B-A2B, MLX conversions included. The projections of an MLP are w1, w3 and w2, or in
// MLX conversions of the mixtures gate_proj, up_proj and down_proj. The weights of a convolution
// are [C, 1, taps], or in MLX conversions [C, taps, 1].

import (
	"fmt"
	"slices"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
)

// The defaults of rope_theta and max_position_embeddings, and what the router adds to the sum by
// which it divides the weights of experts.
const (
	lfm2RopeTheta     = 1e6
	lfm2ContextTokens = 128_000
	lfm2RouterEps     = 1e-6
)

type lfm2Config struct {
	decoderConfig
	mixtureConfig
	NormEps      float32 `json:"norm_eps"`
	TieEmbedding *bool   `json:"tie_embedding"`  // instead of tie_word_embeddings
	FullAttnIdxs []int   `json:"full_attn_idxs"` // if there are no layer_types
	ConvBias     bool    `json:"conv_bias"`      // of all three parts of a convolution
	ConvLCache   int     `json:"conv_L_cache"`   // taps

	// The size of an MLP of the dense models. BlockFFDim replaces intermediate_size.
	BlockFFDim            int      `json:"block_ff_dim"`
	BlockMultipleOf       int      `json:"block_multiple_of"`
	BlockFFNDimMultiplier *float64 `json:"block_ffn_dim_multiplier"`
	BlockAutoAdjustFFDim  bool     `json:"block_auto_adjust_ff_dim"`

	// The router of the mixtures.
	UseExpertBias       bool    `json:"use_expert_bias"`
	RoutedScalingFactor float64 `json:"routed_scaling_factor"`
}

func newLFM2Config(mixture bool) lfm2Config {
	one := 1.0
	c := lfm2Config{decoderConfig: newDecoderConfig(), NormEps: 1e-5, ConvLCache: 3,
		BlockMultipleOf: 256, BlockFFNDimMultiplier: &one, BlockAutoAdjustFFDim: true,
		UseExpertBias: true, RoutedScalingFactor: 1}
	c.TieWordEmbeddings, c.MaxPositionEmbeddings = true, lfm2ContextTokens
	if mixture {
		c.mixtureConfig = mixtureConfig{NumExperts: 32, NumExpertsPerTok: 4,
			MoEIntermediateSize: 1792, NormTopKProb: true, NumDenseLayers: 2}
	}
	return c
}

func loadLFM2(w *checkpoint.Weights) (Model, error) {
	mixture := w.Config.ModelType == "lfm2_moe"
	c := newLFM2Config(mixture)
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.validate(w, mixture); err != nil {
		return nil, err
	}
	o := attentionOptions{headNorm: true,
		names: attentionNames{outProj: "out_proj", qNorm: "q_layernorm.weight",
			kNorm: "k_layernorm.weight"}}
	var err error
	if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: lfm2RopeTheta}); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.norm = "embedding_norm"
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		l := &transformerLayer{norms: layerNorms{
			beforeMixer: s.Vector("operator_norm.weight", c.HiddenSize, 0),
			beforeMLP:   s.Vector("ffn_norm.weight", c.HiddenSize, 0),
		}}
		l.mlp = c.feedForward(w, s.Sub("feed_forward"), i)
		if c.LayerTypes[i] == fullAttention {
			l.mixer = c.attention(s.Sub("self_attn"), o)
			return l, c.attentionSpec()
		}
		l.mixer = c.shortConv(s.Sub("conv"))
		return l, cache.LayerSpec{ConvValues: (c.ConvLCache - 1) * c.HiddenSize,
			ConvChannels: c.HiddenSize}
	}
	return from.load(w, &c.decoderConfig), nil
}

// validate checks the keys and derives those of decoderConfig from them.
func (c *lfm2Config) validate(w *checkpoint.Weights, mixture bool) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	c.RMSNormEps = c.NormEps
	c.rename("rms_norm_eps", "norm_eps")
	if c.TieEmbedding != nil {
		c.TieWordEmbeddings = *c.TieEmbedding
	}
	faults := c.decoderConfig.resolve()
	if mixture {
		faults = append(faults, c.mixtureConfig.resolve(&c.decoderConfig)...)
		faults = append(faults, positiveNumber("routed_scaling_factor", &c.RoutedScalingFactor))
	} else {
		c.mixtureConfig = mixtureConfig{}
		faults = append(faults, c.resolveMLP())
	}
	if c.ConvLCache < 2 || c.ConvLCache > ops.MaxTaps {
		faults = append(faults, fmt.Errorf("conv_L_cache is %d, expected 2 to %d", c.ConvLCache,
			ops.MaxTaps))
	}
	return validate(w.Config.ModelType, append(faults, c.resolveLayers())...)
}

// resolveLayers gives every layer a kind in LayerTypes.
func (c *lfm2Config) resolveLayers() error {
	if len(c.LayerTypes) == 0 {
		for i := range min(c.NumHiddenLayers, maxLayers) {
			kind := fullAttention
			if c.FullAttnIdxs != nil && !slices.Contains(c.FullAttnIdxs, i) {
				kind = convolution
			}
			c.LayerTypes = append(c.LayerTypes, kind)
		}
	}
	var err error
	c.LayerTypes, err = c.layerTypes(c.LayerTypes, 0, convolution)
	return err
}

// resolveMLP sets intermediate_size to that of the MLPs.
func (c *lfm2Config) resolveMLP() error {
	key := "intermediate_size"
	if c.BlockFFDim != 0 {
		key, c.IntermediateSize = "block_ff_dim", c.BlockFFDim
	}
	if err := positive(key, c.IntermediateSize); err != nil {
		return err
	}
	if !c.BlockAutoAdjustFFDim {
		return nil
	}
	c.IntermediateSize = 2 * c.IntermediateSize / 3
	if factor := c.BlockFFNDimMultiplier; factor != nil {
		if err := positive("block_multiple_of", c.BlockMultipleOf); err != nil {
			return err
		}
		if err := positiveNumber("block_ffn_dim_multiplier", factor); err != nil {
			return err
		}
		size := int(min(*factor*float64(c.IntermediateSize), maxDimension+1))
		c.IntermediateSize = (size + c.BlockMultipleOf - 1) / c.BlockMultipleOf * c.BlockMultipleOf
	}
	return positive(key+" after block_auto_adjust_ff_dim", c.IntermediateSize)
}

func (c *lfm2Config) shortConv(s checkpoint.Scope) *nn.ShortConv {
	l := &nn.ShortConv{
		InProj:  loadLinear(s, "in_proj", 3*c.HiddenSize, c.HiddenSize, c.ConvBias),
		OutProj: loadLinear(s, "out_proj", c.HiddenSize, c.HiddenSize, c.ConvBias),
		Conv:    s.Matrix("conv.weight", c.HiddenSize, c.ConvLCache, 0),
	}
	if c.ConvBias {
		l.ConvBias = s.Vector("conv.bias", c.HiddenSize, 0)
	}
	return l
}

// feedForward loads the MLP or the experts of a layer, s.
func (c *lfm2Config) feedForward(w *checkpoint.Weights, s checkpoint.Scope,
	layer int) feedForward {
	f := c.mixtureConfig.load(s, layer, &c.decoderConfig)
	m, ok := f.(*nn.MoE)
	if !ok {
		return f
	}
	m.Sigmoid, m.Epsilon = true, lfm2RouterEps
	if c.UseExpertBias {
		m.Bias = s.Vector("expert_bias", c.NumExperts, 0)
	}
	if c.RoutedScalingFactor != 1 {
		m.Scale = scale(ones(w, c.NumExperts), float32(c.RoutedScalingFactor))
	}
	return m
}

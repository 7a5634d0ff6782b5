package models

// MiniCPM has the layers of Llama and the multipliers of Granite under other names: scale_emb of
// the embeddings, scale_depth / sqrt(layers) of the output of each part, and dim_model_base /
// hidden of
// the logits.
//
// Sources: Hu et al. 2024, "MiniCPM"; Hugging Face, openbmb/MiniCPM-2B-sft-bf16; mlx-lm,
// models/minicpm.py, which does not scale the logits of a tied head. Checkpoints: MiniCPM 1B and 2B
// and MiniCPM4, MLX conversions included.

import (
	"math"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
)

type miniCPMConfig struct {
	graniteConfig
	ScaleEmb     float64 `json:"scale_emb"`
	ScaleDepth   float64 `json:"scale_depth"`
	DimModelBase float64 `json:"dim_model_base"`
	NumExperts   int     `json:"num_experts"`
}

func loadMiniCPM(w *checkpoint.Weights) (Model, error) {
	c := miniCPMConfig{graniteConfig: newGraniteConfig(), ScaleEmb: 1, ScaleDepth: 1,
		DimModelBase: 1}
	c.TieWordEmbeddings = true
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if c.NumExperts > 0 {
		return nil, unsupported(w, "num_experts is %d, expected 0", c.NumExperts)
	}
	if err := validate(w.Config.ModelType,
		layers("num_hidden_layers", c.NumHiddenLayers),
		positiveNumber("scale_emb", &c.ScaleEmb),
		positiveNumber("scale_depth", &c.ScaleDepth),
		positiveNumber("dim_model_base", &c.DimModelBase)); err != nil {
		return nil, err
	}
	c.EmbeddingMultiplier, c.AttentionMultiplier = c.ScaleEmb, 1
	c.ResidualMultiplier = c.ScaleDepth / math.Sqrt(float64(c.NumHiddenLayers))
	c.LogitsScaling = float64(c.HiddenSize) / c.DimModelBase
	if err := c.validate(w); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	var err error
	if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: llamaRopeTheta}); err != nil {
		return nil, err
	}
	return c.load(w, func(i int, s checkpoint.Scope) (*transformerLayer, cache.LayerSpec) {
		return c.layer(s, o), c.memory(i)
	}), nil
}

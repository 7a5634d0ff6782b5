package models

// Mellum 2 has the layers of Qwen3 with experts. Some have a sliding window, and each kind of layer
// has a rotary position embedding of its own.
//
// Sources: Hugging Face transformers, models/mellum; mlx-lm, models/mellum.py. Checkpoints: Mellum
// 2 12B-A2.5B, MLX conversions included.

import (
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
)

type mellumConfig struct {
	decoderConfig
	mixtureConfig
	MLPLayerTypes []string `json:"mlp_layer_types"` // "dense" or "sparse" for each layer
}

func loadMellum(w *checkpoint.Weights) (Model, error) {
	c := mellumConfig{decoderConfig: newDecoderConfig()}
	c.MaxPositionEmbeddings, c.SlidingWindow, c.NormTopKProb = 131072, 1024, true
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if err := c.checkSiLU(w); err != nil {
		return nil, err
	}
	faults := []error{checkMLPLayerTypes(c.MLPLayerTypes, c.NumHiddenLayers)}
	c.DecoderSparseStep, c.NumDenseLayers, c.MLPOnlyLayers = 1, 0, nil
	for i, kind := range c.MLPLayerTypes {
		if kind == denseLayer {
			c.MLPOnlyLayers = append(c.MLPOnlyLayers, i)
		}
	}
	faults = append(faults, c.decoderConfig.resolve()...)
	faults = append(faults, c.mixtureConfig.resolve(&c.decoderConfig)...)
	if err := validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...); err != nil {
		return nil, err
	}
	ropes, err := c.olmo3Ropes(w)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		o := c.qwen3Attention()
		o.rope = ropes[c.LayerTypes[i]]
		return &transformerLayer{
			norms: c.preNorms(s, 0),
			mlp:   c.mixtureConfig.load(s.Sub("mlp"), i, &c.decoderConfig),
			mixer: c.attention(s.Sub("self_attn"), o),
		}, c.memory(i)
	}
	return from.load(w, &c.decoderConfig), nil
}

package models

// StarCoder2 has LayerNorm, an MLP without a gate, and biases in all projections.
//
// Sources: Lozhkov et al. 2024, "StarCoder 2 and The Stack v2"; Hugging Face transformers,
// models/starcoder2; mlx-lm, models/starcoder2.py, which has no window and the exact GELU.
// Checkpoints: StarCoder2 3B, 7B and 15B, MLX conversions included.

import (
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
)

type starCoder2Config struct {
	layerNormConfig
	UseBias bool `json:"use_bias"`
}

func loadStarCoder2(w *checkpoint.Weights) (Model, error) {
	c := starCoder2Config{layerNormConfig: newLayerNormConfig(), UseBias: true}
	c.TieWordEmbeddings, c.HiddenAct, c.MaxPositionEmbeddings = true, "gelu_pytorch_tanh", 4096
	if err := c.decode(w, &c); err != nil {
		return nil, err
	}
	if !c.isGELU() {
		return nil, unsupported(w, "hidden_act is %q, expected gelu_pytorch_tanh", c.HiddenAct)
	}
	c.slideFrom(0)
	if err := c.check(w); err != nil {
		return nil, err
	}
	c.normBias = true
	all := ones(w, c.IntermediateSize)
	return c.load(w, checkpoint.RopeDefaults{Theta: 1e4},
		attentionOptions{qkvBias: c.UseBias, outputBias: c.UseBias}, false, nil,
		func(s checkpoint.Scope) feedForward {
			return &nn.PlainMLP{Ones: all,
				UpProj:   loadLinear(s, "c_fc", c.IntermediateSize, c.HiddenSize, c.UseBias),
				DownProj: loadLinear(s, "c_proj", c.HiddenSize, c.IntermediateSize, c.UseBias)}
		})
}

package models

// Nemotron has LayerNorm with weights that are stored zero-centred, and an MLP without a gate whose
// activation is the squared ReLU. It rotates a half of each head.
//
// Sources: Nemotron-4 (2024); Hugging Face transformers, models/nemotron; mlx-lm,
// models/nemotron.py. Checkpoints: Nemotron-4 Minitron 4B and 8B, MLX conversions included.

import (
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
)

func loadNemotron(w *checkpoint.Weights) (Model, error) {
	c := newLayerNormConfig()
	c.MaxPositionEmbeddings, c.HiddenAct = 4096, "relu2"
	if err := c.decode(w, &c); err != nil {
		return nil, err
	}
	if c.HiddenAct != "relu2" {
		return nil, unsupported(w, "hidden_act is %q, expected relu2", c.HiddenAct)
	}
	c.LayerTypes = nil
	if err := c.checkPairs(w); err != nil {
		return nil, err
	}
	faults := append(c.resolve(), positive("intermediate_size", c.IntermediateSize))
	if err := validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...); err != nil {
		return nil, err
	}
	c.normBias, c.normOffset = true, 1
	return c.load(w, checkpoint.RopeDefaults{Theta: 1e4, PartialFactor: 0.5}, c.llamaAttention(),
		false, nil, func(s checkpoint.Scope) feedForward {
			return &nn.PlainMLP{
				UpProj:   loadLinear(s, "up_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias),
				DownProj: loadLinear(s, "down_proj", c.HiddenSize, c.IntermediateSize, c.MLPBias)}
		})
}

package models

// Phi-3, Phi-3.5 and Phi-4 have the layers of Llama, with fused projections: qkv_proj and
// gate_up_proj. Some rotate only a part of each head (partial_rotary_factor), and those with a long
// context scale each frequency by a factor of its own (LongRoPE). If sliding_window is set, every
// layer sees a window.
//
// Sources: Phi-3 Technical Report (2024); Hugging Face transformers, models/phi3; mlx-lm,
// models/phi3.py. Checkpoints: Phi-3 mini and medium, Phi-3.5 mini, Phi-4 and Phi-4 mini, MLX
// conversions included.

import (
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
)

var phi3RopeDefaults = checkpoint.RopeDefaults{Theta: 1e4, OriginalMax: 4096}

func loadPhi3(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-5, 4096
	if err := c.readSliding(w); err != nil {
		return nil, err
	}
	rope, err := c.phi3Rope(w)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return c.phi3Layer(s, rope), c.memory(i)
	}
	return from.load(w, &c), nil
}

// phi3Rope reads the rotary position embedding. Old configs call LongRoPE "su" or "yarn". In other
// architectures original_max_position_embeddings in rope_scaling takes precedence; here
// transformers and mlx-lm read the key at the top level only.
func (c *decoderConfig) phi3Rope(w *checkpoint.Weights) (ops.Rope, error) {
	r, err := w.Config.Rope(phi3RopeDefaults)
	if err != nil {
		return ops.Rope{}, err
	}
	top := struct {
		OriginalMax float64 `json:"original_max_position_embeddings"`
	}{phi3RopeDefaults.OriginalMax}
	if err := w.Config.Decode(&top); err != nil {
		return ops.Rope{}, err
	}
	switch r.Type {
	case "", "default":
		return newRope(w, r, c.HeadDim)
	case "su", "longrope", "yarn":
		r.Type = "longrope"
	default:
		return ops.Rope{}, unsupported(w, "%s is %q, expected longrope", r.TypeKey(), r.Type)
	}
	if r.OriginalMax = top.OriginalMax; !(r.OriginalMax > 0) {
		return ops.Rope{}, validate(w.Config.ModelType, fmt.Errorf(
			"original_max_position_embeddings is %g, expected a positive number", r.OriginalMax))
	}
	return newRope(w, r, c.HeadDim)
}

func (c *decoderConfig) phi3Layer(s checkpoint.Scope, rope ops.Rope) *transformerLayer {
	return &transformerLayer{
		norms: c.preNorms(s, 0),
		mlp:   c.gateUpMLP(s.Sub("mlp")),
		mixer: c.attention(s.Sub("self_attn"), attentionOptions{rope: rope, fused: true}),
	}
}

// gateUpMLP loads the MLP s, which has one matrix for gate and up.
func (c *decoderConfig) gateUpMLP(s checkpoint.Scope) *nn.MLP {
	n := c.IntermediateSize
	gateUp := s.Split("gate_up_proj", c.HiddenSize, n, n)
	return &nn.MLP{
		GateProj: nn.Linear{Weight: gateUp[0]},
		UpProj:   nn.Linear{Weight: gateUp[1]},
		DownProj: loadLinear(s, "down_proj", c.HiddenSize, n, false),
		GELU:     c.isGELU(),
	}
}

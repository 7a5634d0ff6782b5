package models

// Gemma has the layers of Llama with a GEGLU MLP. Embeddings are scaled by sqrt(hidden) and tied to
// the head. Norm weights are stored zero-centred.
//
// Sources: Gemma Team 2024, "Gemma: Open Models Based on Gemini Research and Technology"; Hugging
// Face transformers, models/gemma; mlx-lm, models/gemma.py. Checkpoints: Gemma 2B and 7B and
// CodeGemma, MLX conversions included. Their hidden_act is gelu in old configs, which means the
// tanh
// approximation, with which they were trained. mlx-lm computes the exact one.

import (
	"math"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/kernels"
)

const gemmaRopeTheta = 1e4 // the default of rope_theta

func loadGemma(w *checkpoint.Weights) (Model, error) {
	c := decoderConfig{VocabSize: 256000, HeadDim: 256, MaxPositionEmbeddings: 8192,
		RMSNormEps: defaultRMSNormEps, TieWordEmbeddings: true, HiddenAct: "gelu_pytorch_tanh"}
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if c.HiddenAct == "gelu" {
		c.HiddenAct = "gelu_pytorch_tanh"
	}
	if c.LayerTypes = nil; !c.isGELU() {
		return nil, unsupported(w, "hidden_act is %q, expected gelu", c.HiddenAct)
	}
	if err := c.check(w); err != nil {
		return nil, err
	}
	o := c.llamaAttention()
	var err error
	if o.rope, err = c.rope(w, checkpoint.RopeDefaults{Theta: gemmaRopeTheta}); err != nil {
		return nil, err
	}
	from := textWeights(w)
	from.normOffset = gemmaNormOffset
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return &transformerLayer{norms: c.preNorms(s, gemmaNormOffset), mlp: c.mlp(s.Sub("mlp")),
			mixer: c.attention(s.Sub("self_attn"), o)}, c.memory(i)
	}
	m := from.load(w, &c)
	m.embedScale = float32(math.Sqrt(float64(c.HiddenSize)))
	if m.embedTokens.Bits > 0 || m.embedTokens.Data.DType != kernels.F32 {
		m.embedScale = bfloat16(m.embedScale) // as in gemma2.go
	}
	return m, nil
}

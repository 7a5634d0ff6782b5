package models

// DeepSeek-V2, DeepSeek-V3, Kimi K2 and GLM-4.7-Flash have multi-head latent attention, which runs
// in its absorbed form (nn.LatentAttention), and the experts of deepseek_moe.go. They differ in the
// defaults, in the epsilon of the norms inside attention, and in the router. The layer after the
// last drafts tokens (MTP, blocks.go).
//
// Originals have kv_b_proj, which computes the keys and values of all heads from a latent. So have
// MLX conversions of DeepSeek-V2, and old ones of the others. New ones have its two parts: embed_q
// with the keys' part, transposed, and unembed_out. Two neighbouring dimensions are rotated
// together, unless rope_interleave is false.
//
// Sources: DeepSeek-AI 2024, "DeepSeek-V2" and "DeepSeek-V3 Technical Report"; Kimi Team 2025,
// "Kimi K2"; Hugging Face transformers, models/deepseek_v2, deepseek_v3 and glm4_moe_lite; mlx-lm,
// models of the same names. Checkpoints: DeepSeek-V2(-Lite), V2.5, V3, V3.1 and R1, Kimi-K2 and
// GLM-4.7-Flash, MLX conversions included.

import (
	"math"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/kernels"
)

// The default of rope_theta, and the epsilon of the norms inside DeepSeek's attention, whatever
// rms_norm_eps is.
const (
	deepseekRopeTheta = 1e4
	deepseekNormEps   = 1e-6
)

// deepseekDenseLayers and deepseekRouter are the defaults of DeepSeek-V3, which config.json may
// omit. They are those of transformers and of the original's own code, and not those of mlx-lm:
// see engine/DECISIONS.md.
const deepseekDenseLayers = 3

var deepseekRouter = routerConfig{NGroup: 8, TopKGroup: 4, RoutedScalingFactor: 2.5}

type deepseekConfig struct {
	decoderConfig
	deepseekMoEConfig
	QLoRARank      int   `json:"q_lora_rank"` // 0 or null: q_proj instead of q_a_proj and q_b_proj
	KVLoRARank     int   `json:"kv_lora_rank"`
	QKNopeHeadDim  int   `json:"qk_nope_head_dim"`
	QKRopeHeadDim  int   `json:"qk_rope_head_dim"`
	VHeadDim       int   `json:"v_head_dim"`
	RopeInterleave *bool `json:"rope_interleave"` // nil: true

	normEps float32 // of the norms inside attention
}

func loadDeepseekV2(w *checkpoint.Weights) (Model, error) {
	c := deepseekConfig{decoderConfig: newDecoderConfig(),
		deepseekMoEConfig: newDeepseekMoEConfig(), normEps: deepseekNormEps}
	c.TopKMethod, c.NormTopKProb = greedyChoice, false
	return c.load(w)
}

func loadDeepseekV3(w *checkpoint.Weights) (Model, error) {
	c := deepseekConfig{decoderConfig: newDecoderConfig(),
		deepseekMoEConfig: newDeepseekMoEConfig(), normEps: deepseekNormEps}
	c.FirstKDenseReplace, c.routerConfig = deepseekDenseLayers, deepseekRouter
	return c.load(w)
}

func loadGLM4MoELite(w *checkpoint.Weights) (Model, error) {
	c := deepseekConfig{decoderConfig: newDecoderConfig(),
		deepseekMoEConfig: newDeepseekMoEConfig()}
	c.FirstKDenseReplace, c.RoutedScalingFactor = glm4DenseLayers, glm4LiteScaling
	return c.load(w)
}

func (c *deepseekConfig) load(w *checkpoint.Weights) (Model, error) {
	if err := w.Config.Decode(c); err != nil {
		return nil, err
	}
	if err := c.validate(w); err != nil {
		return nil, err
	}
	r, err := w.Config.Rope(checkpoint.RopeDefaults{Theta: deepseekRopeTheta})
	if err != nil {
		return nil, err
	}
	attention := nn.LatentAttention{
		Heads: c.NumAttentionHeads, NopeDim: c.QKNopeHeadDim, RopeDim: c.QKRopeHeadDim,
		Rank: c.KVLoRARank, Eps: c.normEps, HeadIDs: headIDs(w, c.NumAttentionHeads),
		Scale: float32(r.Scores() / math.Sqrt(float64(c.QKNopeHeadDim+c.QKRopeHeadDim))),
	}
	if attention.Rope, err = newRope(w, r, c.QKRopeHeadDim); err != nil {
		return nil, err
	}
	attention.Rope.Interleaved = c.RopeInterleave == nil || *c.RopeInterleave
	from := textWeights(w)
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		return &transformerLayer{
				norms: c.preNorms(s, 0),
				mlp:   c.deepseekMoEConfig.load(w, s.Sub("mlp"), i, &c.decoderConfig),
				mixer: c.latentAttention(s.Sub("self_attn"), attention),
			}, cache.LayerSpec{KVHeads: 1, HeadDim: c.KVLoRARank + c.QKRopeHeadDim,
				ValueDim: c.KVLoRARank}
	}
	return from.load(w, &c.decoderConfig), nil
}

func (c *deepseekConfig) validate(w *checkpoint.Weights) error {
	if err := c.checkSiLU(w); err != nil {
		return err
	}
	// What rotates is checked below by its own name. No tensor has the size of head_dim.
	c.HeadDim = min(max(c.QKRopeHeadDim, 1), maxHeadDim)
	if c.normEps == 0 {
		c.normEps = c.RMSNormEps
	}
	faults := append(c.decoderConfig.resolve(), c.deepseekMoEConfig.resolve(&c.decoderConfig)...)
	faults = append(faults,
		positive("kv_lora_rank", c.KVLoRARank),
		positive("qk_nope_head_dim", c.QKNopeHeadDim),
		positive("qk_rope_head_dim", c.QKRopeHeadDim),
		positive("v_head_dim", c.VHeadDim))
	if c.QLoRARank != 0 {
		faults = append(faults, positive("q_lora_rank", c.QLoRARank))
	}
	if err := validate(w.Config.ModelType, faults...); err != nil {
		return err
	}
	if c.QKRopeHeadDim > maxHeadDim {
		return unsupported(w, "qk_rope_head_dim is %d, expected at most %d", c.QKRopeHeadDim,
			maxHeadDim)
	}
	if c.KVLoRARank%headMultiple != 0 {
		return unsupported(w, "kv_lora_rank is %d, expected a multiple of %d", c.KVLoRARank,
			headMultiple)
	}
	return nil
}

// latentAttention loads the attention module s. a has what all layers share.
func (c *deepseekConfig) latentAttention(s checkpoint.Scope,
	a nn.LatentAttention) *nn.LatentAttention {
	heads, queries := c.NumAttentionHeads, c.NumAttentionHeads*(c.QKNopeHeadDim+c.QKRopeHeadDim)
	if n := c.QLoRARank; n > 0 {
		a.QAProj = loadLinear(s, "q_a_proj", n, c.HiddenSize, c.AttentionBias)
		a.QANorm = s.Vector("q_a_layernorm.weight", n, 0)
		a.QBProj = loadLinear(s, "q_b_proj", queries, n, false)
	} else {
		a.QBProj = loadLinear(s, "q_proj", queries, c.HiddenSize, false)
	}
	a.KVAProj = loadLinear(s, "kv_a_proj_with_mqa", c.KVLoRARank+c.QKRopeHeadDim, c.HiddenSize,
		c.AttentionBias)
	a.KVANorm = s.Vector("kv_a_layernorm.weight", c.KVLoRARank, 0)
	if s.Has("embed_q.weight") {
		a.EmbedQ = s.Experts("embed_q", heads, c.KVLoRARank, c.QKNopeHeadDim)
		a.UnembedOut = s.Experts("unembed_out", heads, c.VHeadDim, c.KVLoRARank)
	} else {
		a.EmbedQ, a.UnembedOut = s.Absorbed("kv_b_proj", heads, c.QKNopeHeadDim, c.VHeadDim,
			c.KVLoRARank)
	}
	a.OProj = loadLinear(s, "o_proj", c.HiddenSize, heads*c.VHeadDim, c.AttentionBias)
	return &a
}

// headIDs returns the numbers 0 to heads-1 as I32 [1, heads].
func headIDs(w *checkpoint.Weights, heads int) kernels.Tensor {
	t := kernels.NewTensor(w.Device, kernels.I32, 1, heads)
	if t.Buffer.Bytes != nil {
		for i, ids := 0, t.Int32s(); i < heads; i++ {
			ids[i] = int32(i)
		}
	}
	return t
}

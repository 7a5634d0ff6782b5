package models

// Qwen3 (dense): pre-norm blocks of grouped-query attention, with RMSNorm on each query and key
// head before RoPE, and a SwiGLU MLP. Reference: Qwen3 Technical Report (2025); Hugging Face
// transformers, models/qwen3. Checkpoints: Qwen3-0.6B to 32B, MLX conversions included.

import (
	"math"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// defaultEps is what transformers takes when a config leaves rms_norm_eps out.
const defaultEps = 1e-6

type qwen3Config struct {
	VocabSize             int     `json:"vocab_size"`
	HiddenSize            int     `json:"hidden_size"`
	IntermediateSize      int     `json:"intermediate_size"`
	NumHiddenLayers       int     `json:"num_hidden_layers"`
	NumAttentionHeads     int     `json:"num_attention_heads"`
	NumKeyValueHeads      int     `json:"num_key_value_heads"`
	HeadDim               int     `json:"head_dim"`
	RMSNormEps            float32 `json:"rms_norm_eps"`
	MaxPositionEmbeddings int     `json:"max_position_embeddings"`
	TieWordEmbeddings     bool    `json:"tie_word_embeddings"`
}

func (c *qwen3Config) validate(modelType string) error {
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	return validate(modelType,
		positive("vocab_size", c.VocabSize), positive("hidden_size", c.HiddenSize),
		positive("intermediate_size", c.IntermediateSize),
		layers("num_hidden_layers", c.NumHiddenLayers), epsilon("rms_norm_eps", c.RMSNormEps),
		positive("head_dim", c.HeadDim),
		positive("max_position_embeddings", c.MaxPositionEmbeddings),
		divides("num_key_value_heads", c.NumKeyValueHeads, "num_attention_heads",
			c.NumAttentionHeads))
}

type qwen3 struct {
	config      qwen3Config
	embedTokens *kernels.Weight
	layers      []qwen3Block
	norm        kernels.Tensor
	lmHead      *kernels.Weight
}

type qwen3Block struct {
	inputLayernorm         kernels.Tensor
	selfAttn               nn.Attention
	postAttentionLayernorm kernels.Tensor
	mlp                    nn.MLP
}

func loadQwen3(w *checkpoint.Weights) (Model, error) {
	m := &qwen3{config: qwen3Config{RMSNormEps: defaultEps}}
	c := &m.config
	if err := w.Config.Decode(c); err != nil {
		return nil, err
	}
	if err := c.validate(w.Config.ModelType); err != nil {
		return nil, err
	}
	invFreq, err := invFreq(w, 1e6, c.HeadDim)
	if err != nil {
		return nil, err
	}
	model := w.At("model.")
	m.embedTokens = model.Linear("embed_tokens", c.VocabSize, c.HiddenSize)
	m.norm = model.Vector("norm.weight", c.HiddenSize, 0)
	m.lmHead = m.embedTokens
	if !c.TieWordEmbeddings {
		m.lmHead = w.At("").Linear("lm_head", c.VocabSize, c.HiddenSize)
	}
	for i := range c.NumHiddenLayers {
		if w.Err() != nil {
			return nil, w.Err()
		}
		s := model.Sub("layers.%d", i)
		attn := s.Sub("self_attn")
		m.layers = append(m.layers, qwen3Block{
			inputLayernorm:         s.Vector("input_layernorm.weight", c.HiddenSize, 0),
			postAttentionLayernorm: s.Vector("post_attention_layernorm.weight", c.HiddenSize, 0),
			mlp:                    loadMLP(s.Sub("mlp"), c.HiddenSize, c.IntermediateSize),
			selfAttn: nn.Attention{
				QProj:   attn.Linear("q_proj", c.NumAttentionHeads*c.HeadDim, c.HiddenSize),
				KProj:   attn.Linear("k_proj", c.NumKeyValueHeads*c.HeadDim, c.HiddenSize),
				VProj:   attn.Linear("v_proj", c.NumKeyValueHeads*c.HeadDim, c.HiddenSize),
				OProj:   attn.Linear("o_proj", c.HiddenSize, c.NumAttentionHeads*c.HeadDim),
				QNorm:   attn.Vector("q_norm.weight", c.HeadDim, 0),
				KNorm:   attn.Vector("k_norm.weight", c.HeadDim, 0),
				InvFreq: invFreq, Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads,
				HeadDim: c.HeadDim,
				Scale:   float32(1 / math.Sqrt(float64(c.HeadDim))), Eps: c.RMSNormEps,
			},
		})
	}
	return m, nil
}

func (m *qwen3) Spec() Spec {
	s := Spec{VocabSize: m.config.VocabSize, ContextTokens: m.config.MaxPositionEmbeddings}
	for range m.layers {
		s.Layers = append(s.Layers,
			cache.LayerSpec{KVHeads: m.config.NumKeyValueHeads, HeadDim: m.config.HeadDim})
	}
	return s
}

func (m *qwen3) Forward(c *ops.Context, b *batch.Batch, layers []cache.Layer) kernels.Tensor {
	eps := m.config.RMSNormEps
	h := c.Embed(b.Tokens, m.embedTokens) // the residual stream [M, hidden]
	x := c.RMSNorm(h, m.layers[0].inputLayernorm, eps)
	for i := range m.layers {
		l := &m.layers[i]
		mark := c.Mark()
		x2 := l.selfAttn.Forward(c, b, x, layers[i])
		x2 = l.mlp.Forward(c, c.AddRMSNorm(h, x2, l.postAttentionLayernorm, eps))
		next := m.norm
		if i+1 < len(m.layers) {
			next = m.layers[i+1].inputLayernorm
		}
		c.AddRMSNormTo(x, h, x2, next, eps)
		c.Release(mark)
	}
	return c.Logits(x, b.Logits, m.lmHead)
}

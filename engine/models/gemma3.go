package models

// Gemma 3: blocks of grouped-query attention, most of them over a sliding window and every sixth
// over everything, each kind with rotary frequencies of its own; a norm before and behind both
// mixers; a GEGLU MLP; embeddings scaled by sqrt(hidden) and used as head too. Reference: Gemma 3
// Technical Report (2025); Hugging Face transformers, models/gemma3; mlx-lm, models/gemma3_text.py.
// Checkpoints: the text models (gemma3_text) and the text part of the multimodal ones (gemma3), MLX
// conversions included. All store their norms zero-centred.

import (
	"fmt"
	"math"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/kernels"
)

// The kinds of attention in layer_types.
const (
	slidingAttention = "sliding_attention"
	fullAttention    = "full_attention"
)

type gemma3Config struct {
	qwen3Config
	QueryPreAttnScalar   float64  `json:"query_pre_attn_scalar"`
	SlidingWindow        int      `json:"sliding_window"`
	SlidingWindowPattern int      `json:"sliding_window_pattern"`
	LayerTypes           []string `json:"layer_types"`
	RopeLocalBaseFreq    float64  `json:"rope_local_base_freq"`
	HiddenActivation     string   `json:"hidden_activation"`
	AttentionBias        bool     `json:"attention_bias"`
	Bidirectional        bool     `json:"use_bidirectional_attention"`
	AttnLogitSoftcap     float64  `json:"attn_logit_softcapping"`
	FinalLogitSoftcap    float64  `json:"final_logit_softcapping"`
}

// newGemma3Config holds what transformers takes for keys that are left out, as the multimodal
// checkpoints leave many.
func newGemma3Config() gemma3Config {
	return gemma3Config{
		qwen3Config: qwen3Config{VocabSize: 262208, NumAttentionHeads: 8, NumKeyValueHeads: 4,
			HeadDim: 256, MaxPositionEmbeddings: 131072,
			RMSNormEps: defaultEps, TieWordEmbeddings: true},
		QueryPreAttnScalar: 256, SlidingWindow: 4096, SlidingWindowPattern: 6,
		RopeLocalBaseFreq: 1e4, HiddenActivation: "gelu_pytorch_tanh",
	}
}

func (c *gemma3Config) validate(modelType string) error {
	if c.HiddenActivation != "gelu_pytorch_tanh" || c.AttentionBias || c.Bidirectional ||
		c.AttnLogitSoftcap != 0 || c.FinalLogitSoftcap != 0 {
		return problem.New(problem.UnknownArchitecture,
			"Headroom cannot run this variant of Gemma 3",
			fmt.Sprintf(
				"hidden_activation %s, attention_bias %t, use_bidirectional_attention %t, "+
					"attn_logit_softcapping %g, final_logit_softcapping %g",
				c.HiddenActivation, c.AttentionBias, c.Bidirectional, c.AttnLogitSoftcap,
				c.FinalLogitSoftcap), "Pick another model.")
	}
	faults := []error{positive("sliding_window", c.SlidingWindow),
		positive("sliding_window_pattern", c.SlidingWindowPattern)}
	if !(c.QueryPreAttnScalar > 0) {
		faults = append(faults, fmt.Errorf(
			"query_pre_attn_scalar is %g, expected a positive number", c.QueryPreAttnScalar))
	}
	if err := validate(modelType,
		append(faults, c.qwen3Config.validate(modelType))...); err != nil {
		return err
	}
	if len(c.LayerTypes) == 0 {
		for i := range c.NumHiddenLayers {
			kind := slidingAttention
			if (i+1)%c.SlidingWindowPattern == 0 {
				kind = fullAttention
			}
			c.LayerTypes = append(c.LayerTypes, kind)
		}
	}
	if len(c.LayerTypes) != c.NumHiddenLayers {
		return validate(modelType,
			fmt.Errorf("layer_types has %d entries for num_hidden_layers of %d", len(c.LayerTypes),
				c.NumHiddenLayers))
	}
	for i, kind := range c.LayerTypes {
		if kind != slidingAttention && kind != fullAttention {
			return validate(modelType,
				fmt.Errorf("layer_types[%d] is %q, expected %s or %s", i, kind, slidingAttention,
					fullAttention))
		}
	}
	return nil
}

// ropes is the rotary frequencies of each kind of layers. Newer configs name them in
// rope_parameters; in older ones rope_theta and rope_scaling are for full attention only.
func (c *gemma3Config) ropes(w *checkpoint.Weights) (map[string]kernels.Tensor, error) {
	full, nested, err := w.Config.LayerRope(fullAttention, 1e6)
	if err == nil && !nested {
		full, err = w.Config.Rope(1e6)
	}
	if err != nil {
		return nil, err
	}
	sliding, _, err := w.Config.LayerRope(slidingAttention, c.RopeLocalBaseFreq)
	if err != nil {
		return nil, err
	}
	freqs := map[string]kernels.Tensor{}
	for kind, r := range map[string]checkpoint.RopeParameters{fullAttention: full,
		slidingAttention: sliding} {
		if freqs[kind], err = ropeFreq(w, r, c.HeadDim); err != nil {
			return nil, err
		}
	}
	return freqs, nil
}

type gemma3 struct {
	config      gemma3Config
	embedTokens *kernels.Weight
	embedScale  float32
	layers      []gemma3Block
	norm        kernels.Tensor
	lmHead      *kernels.Weight
}

type gemma3Block struct {
	inputLayernorm, postAttentionLayernorm            kernels.Tensor
	preFeedforwardLayernorm, postFeedforwardLayernorm kernels.Tensor
	selfAttn                                          nn.Attention
	mlp                                               nn.MLP
}

func loadGemma3(w *checkpoint.Weights) (Model, error) {
	m := &gemma3{config: newGemma3Config()}
	c := &m.config
	if err := w.Config.Decode(c); err != nil {
		return nil, err
	}
	if err := c.validate(w.Config.ModelType); err != nil {
		return nil, err
	}
	freqs, err := c.ropes(w)
	if err != nil {
		return nil, err
	}
	model := w.At("language_model.model.", "model.language_model.", "model.")
	m.embedTokens = model.Linear("embed_tokens", c.VocabSize, c.HiddenSize)
	m.embedScale = bfloat16(float32(math.Sqrt(float64(c.HiddenSize))))
	m.norm = model.Vector("norm.weight", c.HiddenSize, 1)
	m.lmHead = m.embedTokens
	if root := w.At(""); !c.TieWordEmbeddings {
		name := "lm_head"
		if root.Has("language_model.lm_head.weight") {
			name = "language_model.lm_head"
		}
		m.lmHead = root.Linear(name, c.VocabSize, c.HiddenSize)
	}
	for i, kind := range c.LayerTypes {
		if w.Err() != nil {
			return nil, w.Err()
		}
		m.layers = append(m.layers, c.block(model.Sub("layers.%d", i), freqs[kind]))
	}
	return m, nil
}

func (c *gemma3Config) block(s checkpoint.Scope, invFreq kernels.Tensor) gemma3Block {
	attn := s.Sub("self_attn")
	b := gemma3Block{
		inputLayernorm:           s.Vector("input_layernorm.weight", c.HiddenSize, 1),
		postAttentionLayernorm:   s.Vector("post_attention_layernorm.weight", c.HiddenSize, 1),
		preFeedforwardLayernorm:  s.Vector("pre_feedforward_layernorm.weight", c.HiddenSize, 1),
		postFeedforwardLayernorm: s.Vector("post_feedforward_layernorm.weight", c.HiddenSize, 1),
		mlp:                      loadMLP(s.Sub("mlp"), c.HiddenSize, c.IntermediateSize),
		selfAttn: nn.Attention{
			QProj:   attn.Linear("q_proj", c.NumAttentionHeads*c.HeadDim, c.HiddenSize),
			KProj:   attn.Linear("k_proj", c.NumKeyValueHeads*c.HeadDim, c.HiddenSize),
			VProj:   attn.Linear("v_proj", c.NumKeyValueHeads*c.HeadDim, c.HiddenSize),
			OProj:   attn.Linear("o_proj", c.HiddenSize, c.NumAttentionHeads*c.HeadDim),
			QNorm:   attn.Vector("q_norm.weight", c.HeadDim, 1),
			KNorm:   attn.Vector("k_norm.weight", c.HeadDim, 1),
			InvFreq: invFreq, Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads,
			HeadDim: c.HeadDim,
			Scale:   float32(1 / math.Sqrt(c.QueryPreAttnScalar)), Eps: c.RMSNormEps,
		},
	}
	b.mlp.GELU = true
	return b
}

// bfloat16 rounds x to 8 bits of precision, to even: the reference holds the embeddings' factor so.
func bfloat16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

func (m *gemma3) Spec() Spec {
	c := &m.config
	s := Spec{VocabSize: c.VocabSize, ContextTokens: c.MaxPositionEmbeddings}
	for _, kind := range c.LayerTypes {
		layer := cache.LayerSpec{KVHeads: c.NumKeyValueHeads, HeadDim: c.HeadDim}
		if kind == slidingAttention {
			layer.Window = c.SlidingWindow
		}
		s.Layers = append(s.Layers, layer)
	}
	return s
}

func (m *gemma3) Forward(c *ops.Context, b *batch.Batch, layers []cache.Layer) kernels.Tensor {
	eps := m.config.RMSNormEps
	h := c.ScaledEmbed(b.Tokens, m.embedTokens, m.embedScale) // the residual stream [M, hidden]
	x := c.RMSNorm(h, m.layers[0].inputLayernorm, eps)
	for i := range m.layers {
		l := &m.layers[i]
		mark := c.Mark()
		delta := c.RMSNorm(l.selfAttn.Forward(c, b, x, layers[i]), l.postAttentionLayernorm, eps)
		delta = l.mlp.Forward(c, c.AddRMSNorm(h, delta, l.preFeedforwardLayernorm, eps))
		delta = c.RMSNorm(delta, l.postFeedforwardLayernorm, eps)
		next := m.norm
		if i+1 < len(m.layers) {
			next = m.layers[i+1].inputLayernorm
		}
		c.AddRMSNormTo(x, h, delta, next, eps)
		c.Release(mark)
	}
	return c.Logits(x, b.Logits, m.lmHead)
}

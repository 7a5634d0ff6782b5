package models

// Qwen3.5 and 3.6, dense and mixture of experts: blocks of GatedDeltaNet with a full-attention
// block every full_attention_interval, each followed by a SwiGLU MLP or by experts with one shared
// expert; one MTP block that drafts the token after the next. Reference: Hugging Face transformers,
// models/qwen3_5 and qwen3_5_moe; mlx-lm, models/qwen3_5.py. Checkpoints: MLX conversions (names
// under language_model., norms already shifted) and Hugging Face originals (zero-centred norms).

import (
	"fmt"
	"math"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

type qwen35Config struct {
	qwen3Config
	FullAttentionInterval int      `json:"full_attention_interval"`
	LayerTypes            []string `json:"layer_types"`
	LinearNumKeyHeads     int      `json:"linear_num_key_heads"`
	LinearNumValueHeads   int      `json:"linear_num_value_heads"`
	LinearKeyHeadDim      int      `json:"linear_key_head_dim"`
	LinearValueHeadDim    int      `json:"linear_value_head_dim"`
	LinearConvKernelDim   int      `json:"linear_conv_kernel_dim"`
	MTPNumHiddenLayers    int      `json:"mtp_num_hidden_layers"`

	// Mixture of experts: NumExperts is 0 in dense models.
	NumExperts                   int  `json:"num_experts"`
	NumExpertsPerTok             int  `json:"num_experts_per_tok"`
	MoEIntermediateSize          int  `json:"moe_intermediate_size"`
	SharedExpertIntermediateSize int  `json:"shared_expert_intermediate_size"`
	NormTopKProb                 bool `json:"norm_topk_prob"`
}

func (c *qwen35Config) validate(modelType string) error {
	moe := c.NumExperts > 0
	if moe {
		c.IntermediateSize = 1 // not used
	}
	faults := []error{
		positive("linear_conv_kernel_dim", c.LinearConvKernelDim),
		positive("linear_key_head_dim", c.LinearKeyHeadDim),
		positive("linear_value_head_dim", c.LinearValueHeadDim),
		divides("linear_num_key_heads", c.LinearNumKeyHeads, "linear_num_value_heads",
			c.LinearNumValueHeads),
	}
	if moe {
		faults = append(faults, positive("num_experts", c.NumExperts),
			positive("num_experts_per_tok", c.NumExpertsPerTok),
			positive("moe_intermediate_size", c.MoEIntermediateSize),
			positive("shared_expert_intermediate_size", c.SharedExpertIntermediateSize))
		if c.NumExpertsPerTok > c.NumExperts {
			faults = append(faults, fmt.Errorf("num_experts_per_tok is %d of %d experts",
				c.NumExpertsPerTok, c.NumExperts))
		}
	}
	switch {
	case len(c.LayerTypes) == 0 && c.FullAttentionInterval > 0:
		for i := range min(c.NumHiddenLayers, maxLayers) {
			kind := "linear_attention"
			if (i+1)%c.FullAttentionInterval == 0 {
				kind = "full_attention"
			}
			c.LayerTypes = append(c.LayerTypes, kind)
		}
	case len(c.LayerTypes) != c.NumHiddenLayers:
		faults = append(faults, fmt.Errorf("layer_types has %d entries for num_hidden_layers of %d",
			len(c.LayerTypes), c.NumHiddenLayers))
	}
	for i, kind := range c.LayerTypes {
		if kind != "linear_attention" && kind != "full_attention" {
			faults = append(faults, fmt.Errorf(
				"layer_types[%d] is %q, expected linear_attention or full_attention", i, kind))
		}
	}
	return validate(modelType, append(faults, c.qwen3Config.validate(modelType))...)
}

type qwen35 struct {
	config      qwen35Config
	embedTokens *kernels.Weight
	layers      []qwen35Block
	norm        kernels.Tensor
	lmHead      *kernels.Weight
	mtp         *qwen35MTP // nil: the checkpoint has none
}

// qwen35Block mixes tokens by one of selfAttn and linearAttn, then features by one of mlp and moe.
type qwen35Block struct {
	inputLayernorm         kernels.Tensor
	selfAttn               *nn.Attention
	linearAttn             *nn.GatedDeltaNet
	postAttentionLayernorm kernels.Tensor
	mlp                    *nn.MLP
	moe                    *nn.MoE
}

// qwen35MTP drafts: block(fc(concat(norm(embed(next token)), norm(hidden)))), then the trunk's
// head.
type qwen35MTP struct {
	preFCNormEmbedding, preFCNormHidden kernels.Tensor
	fc                                  *kernels.Weight // [hidden, 2*hidden]
	layer                               qwen35Block
	norm                                kernels.Tensor
}

func loadQwen35(w *checkpoint.Weights) (Model, error) {
	m := &qwen35{config: qwen35Config{qwen3Config: qwen3Config{RMSNormEps: defaultEps},
		NormTopKProb: true}}
	c := &m.config
	if err := w.Config.Decode(c); err != nil {
		return nil, err
	}
	if err := c.validate(w.Config.ModelType); err != nil {
		return nil, err
	}
	freq, err := invFreq(w, 1e7, c.HeadDim)
	if err != nil {
		return nil, err
	}
	model := w.At("language_model.model.", "model.language_model.", "model.")
	l := qwen35Loader{config: c, invFreq: freq, shift: trunkShift(model, c)}
	m.embedTokens = model.Linear("embed_tokens", c.VocabSize, c.HiddenSize)
	m.norm = l.norm(model, "norm.weight", c.HiddenSize)
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
		m.layers = append(m.layers, l.block(model.Sub("layers.%d", i), kind))
	}
	if s := w.At("language_model.mtp.", "model.mtp.", "mtp."); c.MTPNumHiddenLayers > 0 &&
		s.Has("fc.weight") {
		m.mtp = l.mtp(s)
	}
	return m, nil
}

// qwen35Loader is the weight map: where tensors are and what must be done to them is decided here
// and nowhere else.
type qwen35Loader struct {
	config  *qwen35Config
	invFreq kernels.Tensor
	// what a norm weight lacks: 1 where it is stored zero-centred
	shift func(checkpoint.Scope, string) float32
}

// trunkShift tells the two norm conventions apart: Hugging Face stores w-1 and lays conv1d out as
// [C, 1, taps], MLX converts both. MTP tensors in a checkpoint say nothing about it.
func trunkShift(model checkpoint.Scope, c *qwen35Config) func(checkpoint.Scope, string) float32 {
	add := float32(0)
	for i, kind := range c.LayerTypes {
		shape := model.Shape(fmt.Sprintf("layers.%d.linear_attn.conv1d.weight", i))
		if kind == "linear_attention" && len(shape) == 3 && shape[2] != 1 {
			add = 1
		}
	}
	return func(checkpoint.Scope, string) float32 { return add }
}

// meanShift decides per tensor, for MTP blocks, whose norms are found raw beside a converted trunk:
// effective weights are near 1.
func meanShift(s checkpoint.Scope, name string) float32 {
	if s.Mean(name) < 0.5 {
		return 1
	}
	return 0
}

func (l *qwen35Loader) norm(s checkpoint.Scope, name string, n int) kernels.Tensor {
	return s.Vector(name, n, l.shift(s, name))
}

func (l *qwen35Loader) block(s checkpoint.Scope, kind string) qwen35Block {
	c := l.config
	b := qwen35Block{
		inputLayernorm:         l.norm(s, "input_layernorm.weight", c.HiddenSize),
		postAttentionLayernorm: l.norm(s, "post_attention_layernorm.weight", c.HiddenSize),
	}
	if kind == "full_attention" {
		b.selfAttn = l.attention(s.Sub("self_attn"))
	} else {
		b.linearAttn = l.deltaNet(s.Sub("linear_attn"))
	}
	s = s.Sub("mlp")
	if c.NumExperts == 0 {
		mlp := loadMLP(s, c.HiddenSize, c.IntermediateSize)
		b.mlp = &mlp
		return b
	}
	shared := loadMLP(s.Sub("shared_expert"), c.HiddenSize, c.SharedExpertIntermediateSize)
	b.moe = &nn.MoE{
		Gate:             s.Linear("gate", c.NumExperts, c.HiddenSize),
		SwitchMLP:        loadExperts(s, c.NumExperts, c.HiddenSize, c.MoEIntermediateSize),
		SharedExpert:     &shared,
		SharedExpertGate: s.Linear("shared_expert_gate", 1, c.HiddenSize),
		TopK:             c.NumExpertsPerTok, NormTopKProb: c.NormTopKProb,
	}
	return b
}

func (l *qwen35Loader) attention(s checkpoint.Scope) *nn.Attention {
	c := l.config
	return &nn.Attention{
		// per head: query, then gate
		QProj:   s.Linear("q_proj", c.NumAttentionHeads*2*c.HeadDim, c.HiddenSize),
		KProj:   s.Linear("k_proj", c.NumKeyValueHeads*c.HeadDim, c.HiddenSize),
		VProj:   s.Linear("v_proj", c.NumKeyValueHeads*c.HeadDim, c.HiddenSize),
		OProj:   s.Linear("o_proj", c.HiddenSize, c.NumAttentionHeads*c.HeadDim),
		QNorm:   l.norm(s, "q_norm.weight", c.HeadDim),
		KNorm:   l.norm(s, "k_norm.weight", c.HeadDim),
		InvFreq: l.invFreq, Heads: c.NumAttentionHeads, KVHeads: c.NumKeyValueHeads,
		HeadDim: c.HeadDim,
		Scale:   float32(1 / math.Sqrt(float64(c.HeadDim))), Eps: c.RMSNormEps, OutputGate: true,
	}
}

func (l *qwen35Loader) deltaNet(s checkpoint.Scope) *nn.GatedDeltaNet {
	c := l.config
	shape := ops.DeltaShape{Hk: c.LinearNumKeyHeads, Hv: c.LinearNumValueHeads,
		Dk: c.LinearKeyHeadDim, Dv: c.LinearValueHeadDim}
	keyDim, valueDim := shape.Hk*shape.Dk, shape.Hv*shape.Dv
	return &nn.GatedDeltaNet{
		InProjQKV: s.Linear("in_proj_qkv", 2*keyDim+valueDim, c.HiddenSize),
		InProjZ:   s.Linear("in_proj_z", valueDim, c.HiddenSize),
		InProjB:   s.Linear("in_proj_b", shape.Hv, c.HiddenSize),
		InProjA:   s.Linear("in_proj_a", shape.Hv, c.HiddenSize),
		OutProj:   s.Linear("out_proj", c.HiddenSize, valueDim),
		// [C, taps, 1] and [C, 1, taps] alike
		Conv1D:     s.Matrix("conv1d.weight", 2*keyDim+valueDim, c.LinearConvKernelDim, 0),
		ALog:       s.Vector("A_log", shape.Hv, 0),
		DtBias:     s.Vector("dt_bias", shape.Hv, 0),
		Norm:       s.Vector("norm.weight", shape.Dv, 0), // plain in both conventions
		DeltaShape: shape, Eps: c.RMSNormEps,
	}
}

func (l qwen35Loader) mtp(s checkpoint.Scope) *qwen35MTP {
	h := l.config.HiddenSize
	l.shift = meanShift
	return &qwen35MTP{
		preFCNormEmbedding: l.norm(s, "pre_fc_norm_embedding.weight", h),
		preFCNormHidden:    l.norm(s, "pre_fc_norm_hidden.weight", h),
		fc:                 s.Linear("fc", h, 2*h),
		layer:              l.block(s.Sub("layers.0"), "full_attention"),
		norm:               l.norm(s, "norm.weight", h),
	}
}

func (m *qwen35) Spec() Spec {
	c := &m.config
	s := Spec{VocabSize: c.VocabSize, ContextTokens: c.MaxPositionEmbeddings}
	for i := range m.layers {
		layer := cache.LayerSpec{KVHeads: c.NumKeyValueHeads, HeadDim: c.HeadDim}
		if d := m.layers[i].linearAttn; d != nil {
			layer = cache.LayerSpec{
				ConvValues:   (c.LinearConvKernelDim - 1) * d.Conv1D.Rows,
				ConvChannels: d.Conv1D.Rows,
				StateValues:  d.Hv * d.Dv * d.Dk, StateRow: d.Dk,
			}
		}
		s.Layers = append(s.Layers, layer)
	}
	return s
}

func (m *qwen35) Forward(c *ops.Context, b *batch.Batch, layers []cache.Layer) kernels.Tensor {
	eps := m.config.RMSNormEps
	h := c.Embed(b.Tokens, m.embedTokens) // the residual stream [M, hidden]
	x := c.RMSNorm(h, m.layers[0].inputLayernorm, eps)
	for i := range m.layers {
		mark := c.Mark()
		delta := m.layers[i].forward(c, b, h, x, layers[i], eps)
		next := m.norm
		if i+1 < len(m.layers) {
			next = m.layers[i+1].inputLayernorm
		}
		c.AddRMSNormTo(x, h, delta, next, eps)
		c.Release(mark)
	}
	return c.Logits(x, b.Logits, m.lmHead)
}

// forward takes the residual stream h and x, its normalized form; it adds the token mixer's output
// to h and returns the feature mixer's, for the caller to add.
func (l *qwen35Block) forward(c *ops.Context, b *batch.Batch, h, x kernels.Tensor,
	layer cache.Layer, eps float32) kernels.Tensor {
	if l.selfAttn != nil {
		x = l.selfAttn.Forward(c, b, x, layer)
	} else {
		x = l.linearAttn.Forward(c, b, x, layer)
	}
	x = c.AddRMSNorm(h, x, l.postAttentionLayernorm, eps)
	if l.moe != nil {
		return l.moe.Forward(c, x)
	}
	return l.mlp.Forward(c, x)
}

package models

// ModernBERT has pre-norm layers of bidirectional attention with rotary positions, and a GeGLU
// feed-forward part. Every third layer has full attention, and the others see a window of tokens
// before and after each. The first layer has no norm before its attention.
//
// Sources: Warner et al. 2024, "Smarter, Better, Faster, Longer"; Hugging Face transformers,
// models/modernbert. Checkpoints: modernbert-embed, gte-modernbert; as a classifier,
// gte-reranker-modernbert.

import (
	"fmt"
	"math"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

type modernBERTConfig struct {
	encoderConfig
	HiddenActivation  string            `json:"hidden_activation"`
	NormEps           float32           `json:"norm_eps"`
	NormBias          bool              `json:"norm_bias"`
	AttentionBias     bool              `json:"attention_bias"`
	MLPBias           bool              `json:"mlp_bias"`
	GlobalEvery       int               `json:"global_attn_every_n_layers"`
	LocalAttention    int               `json:"local_attention"`
	GlobalTheta       float64           `json:"global_rope_theta"`
	LocalTheta        *float64          `json:"local_rope_theta"`
	LayerTypes        []string          `json:"layer_types"`
	ClassifierPooling modelfile.Pooling `json:"classifier_pooling"`
	ClassifierAct     string            `json:"classifier_activation"`
	ClassifierBias    bool              `json:"classifier_bias"`
}

func loadModernBERT(w *checkpoint.Weights) (*encoder, error) {
	c := modernBERTConfig{
		encoderConfig: encoderConfig{VocabSize: 50368, HiddenSize: 768, IntermediateSize: 1152,
			NumHiddenLayers: 22, NumAttentionHeads: 12, MaxPositionEmbeddings: 8192},
		HiddenActivation: "gelu", NormEps: 1e-5, GlobalEvery: 3, LocalAttention: 128,
		GlobalTheta: 160000, ClassifierPooling: "cls", ClassifierAct: "gelu",
	}
	if err := w.Config.Decode(&c); err != nil {
		return nil, err
	}
	if c.HiddenActivation != "gelu" {
		return nil, notGELU(w, "hidden_activation", c.HiddenActivation)
	}
	if err := c.check(w); err != nil {
		return nil, err
	}
	if err := c.checkLayers(w); err != nil {
		return nil, err
	}
	ropes, err := c.ropes(w)
	if err != nil {
		return nil, err
	}
	return c.load(w, ropes), nil
}

// checkLayers checks the norms and the kinds of the layers, and fills in the kinds.
func (c *modernBERTConfig) checkLayers(w *checkpoint.Weights) error {
	faults := []error{epsilon("norm_eps", c.NormEps),
		positive("global_attn_every_n_layers", c.GlobalEvery)}
	if c.LocalAttention < 2 || c.LocalAttention > maxDimension {
		faults = append(faults, fmt.Errorf("local_attention is %d, expected 2 to %d",
			c.LocalAttention, maxDimension))
	}
	if err := validate(w.Config.ModelType, faults...); err != nil {
		return err
	}
	if len(c.LayerTypes) == 0 {
		for i := range c.NumHiddenLayers {
			kind := slidingAttention
			if i%c.GlobalEvery == 0 {
				kind = fullAttention
			}
			c.LayerTypes = append(c.LayerTypes, kind)
		}
	}
	d := decoderConfig{NumHiddenLayers: c.NumHiddenLayers}
	_, err := d.layerTypes(c.LayerTypes, 0, slidingAttention)
	return validate(w.Config.ModelType, err)
}

// ropes returns the rotary position embedding of each kind of layer.
func (c *modernBERTConfig) ropes(w *checkpoint.Weights) (map[string]ops.Rope, error) {
	full := checkpoint.RopeDefaults{Theta: c.GlobalTheta, ThetaKey: "global_rope_theta"}
	local := full
	if c.LocalTheta != nil {
		local = checkpoint.RopeDefaults{Theta: *c.LocalTheta, ThetaKey: "local_rope_theta"}
	} else if !w.Config.IsNull("local_rope_theta") {
		local = checkpoint.RopeDefaults{Theta: 1e4}
	}
	ropes := map[string]ops.Rope{}
	for kind, defaults := range map[string]checkpoint.RopeDefaults{fullAttention: full,
		slidingAttention: local} {
		r, _, err := w.Config.LayerRope(kind, defaults)
		if err != nil {
			return nil, err
		}
		if ropes[kind], err = newRope(w, r, c.headDim()); err != nil {
			return nil, err
		}
	}
	return ropes, nil
}

func (c *modernBERTConfig) load(w *checkpoint.Weights, ropes map[string]ops.Rope) *encoder {
	s, hidden := w.At("model.", ""), c.HiddenSize
	m := &encoder{
		spec:           c.spec(c.MaxPositionEmbeddings),
		wordEmbeddings: s.Linear("embeddings.tok_embeddings", c.VocabSize, hidden),
		embeddingNorm:  c.norm(s, "embeddings.norm"),
		finalNorm:      c.norm(s, "final_norm"),

		classifierPooling: c.ClassifierPooling,
	}
	m.loadLayers(w, s.Sub("layers"), c.NumHiddenLayers,
		func(i int, s checkpoint.Scope) encoderLayer {
			return c.layer(w, s, i, ropes[c.LayerTypes[i]])
		})
	m.classifier = func() []headLayer {
		if c.ClassifierAct != "gelu" {
			return nil
		}
		root := w.At("")
		return []headLayer{
			{Linear: loadLinear(root, "head.dense", hidden, hidden, c.ClassifierBias),
				geluOnes: ones(w, hidden), norm: c.norm(root, "head.norm")},
			{Linear: loadLinear(root, "classifier", 1, hidden, true)},
		}
	}
	return m
}

func (c *modernBERTConfig) norm(s checkpoint.Scope, name string) layerNorm {
	return loadLayerNorm(s, name, c.HiddenSize, c.NormBias, c.NormEps)
}

// modernBERTLayer implements encoderLayer. The norms are before the parts.
type modernBERTLayer struct {
	attentionNorm, mlpNorm layerNorm // the first layer has no attentionNorm
	attention              nn.Attention
	in, gate, out          nn.Linear
}

func (c *modernBERTConfig) layer(w *checkpoint.Weights, s checkpoint.Scope, i int,
	rope ops.Rope) *modernBERTLayer {
	hidden, inner := c.HiddenSize, c.IntermediateSize
	l := &modernBERTLayer{
		attention: nn.Attention{
			OProj: loadLinear(s, "attn.Wo", hidden, hidden, c.AttentionBias),
			Heads: c.NumAttentionHeads, KVHeads: c.NumAttentionHeads, HeadDim: c.headDim(),
			Scale: float32(1 / math.Sqrt(float64(c.headDim()))),
			Rope:  rope, Bidirectional: true,
		},
		mlpNorm: c.norm(s, "mlp_norm"),
		out:     loadLinear(s, "mlp.Wo", hidden, inner, c.MLPBias),
	}
	if i > 0 {
		l.attentionNorm = c.norm(s, "attn_norm")
	}
	if c.LayerTypes[i] == slidingAttention {
		l.attention.FullWindow = c.LocalAttention / 2
	}
	qkv := splitLinear(s, "attn.Wqkv", hidden, c.AttentionBias, hidden, hidden, hidden)
	l.attention.QProj, l.attention.KProj, l.attention.VProj = qkv[0], qkv[1], qkv[2]
	in := splitLinear(s, "mlp.Wi", hidden, c.MLPBias, inner, inner)
	l.in, l.gate = in[0], in[1]
	return l
}

// splitLinear loads the projection name as parts with n rows each, and their biases if there are
// any.
func splitLinear(s checkpoint.Scope, name string, k int, bias bool, n ...int) []nn.Linear {
	parts := make([]nn.Linear, len(n))
	total := 0
	for _, rows := range n {
		total += rows
	}
	var all kernels.Tensor
	if bias {
		all = s.Vector(name+".bias", total, 0)
	}
	at := 0
	for i, w := range s.Split(name, k, n...) {
		parts[i].Weight = w
		if bias && !all.IsNone() && all.Cols == total {
			parts[i].Bias = all.Columns(at, at+n[i])
		}
		at += n[i]
	}
	return parts
}

func (l *modernBERTLayer) forward(c *ops.Context, b *batch.Batch, h kernels.Tensor,
	memory cache.Layer) {
	x := l.attentionNorm.forward(c, h)
	c.AddTo(h, h, l.attention.Forward(c, b, x, memory))
	x = l.mlpNorm.forward(c, h)
	in, gate := c.Linear2(x, l.in.Weight, l.gate.Weight)
	c.AddBias(in, l.in.Bias)
	c.AddBias(gate, l.gate.Bias)
	c.AddTo(h, h, l.out.Forward(c, c.GELUErfMul(in, gate)))
}

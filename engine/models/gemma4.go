package models

// Gemma 4 has layers of grouped-query attention in two kinds. Most have a sliding window. The
// others have full attention, larger heads and a rotary embedding that rotates only the first pairs
// of a head. Queries, keys and values are normalized, the values without a weight, and scores are
// not scaled. There are norms before and after both attention and the GEGLU MLP, and a scalar
// multiplies the residual stream at the end of each layer. Some sizes of the model have in addition
//
//   - layers without keys and values, which attend to those of an earlier layer of the same kind
//     and may have an MLP twice as wide (E2B, E4B)
//   - inputs per layer: a small embedding of each token for every layer, gated by the residual
//     stream (E2B, E4B)
//   - full attention in which k_proj gives the values too (26B-A4B, 31B)
//   - a mixture of experts beside the MLP (26B-A4B)
//
// Sources: Hugging Face transformers, models/gemma4; mlx-lm, models/gemma4_text.py. Checkpoints:
// the text models (gemma4_text) and the language model of the multimodal ones (gemma4,
// gemma4_unified), MLX conversions included. Hugging Face originals have the gate and up
// projections of the experts in one tensor.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

type gemma4Config struct {
	decoderConfig
	HiddenActivation  string                    `json:"hidden_activation"`
	GlobalHeadDim     int                       `json:"global_head_dim"` // full attention
	GlobalKVHeads     int                       `json:"num_global_key_value_heads"`
	PerLayer          map[string]map[string]int `json:"per_layer_config"` // replaces both
	KeysAreValues     bool                      `json:"attention_k_eq_v"` // full attention
	SharedLayers      int                       `json:"num_kv_shared_layers"`
	DoubleWideMLP     bool                      `json:"use_double_wide_mlp"` // of these layers
	InputSize         int                       `json:"hidden_size_per_layer_input"`
	InputVocabSize    int                       `json:"vocab_size_per_layer_input"`
	HasExperts        bool                      `json:"enable_moe_block"`
	NumExperts        int                       `json:"num_experts"`
	TopKExperts       int                       `json:"top_k_experts"`
	ExpertSize        int                       `json:"moe_intermediate_size"`
	FinalLogitSoftcap float32                   `json:"final_logit_softcapping"`
	Bidirectional     any                       `json:"use_bidirectional_attention"`

	// assists says that this is the config of an assistant (assistant.go), all of whose layers
	// attend to keys and values of another model.
	assists bool

	layers   []decoderConfig // of each layer, with its head dimension and key-value heads
	memoryOf []int           // the layer whose keys and values each layer attends to
}

func (c *gemma4Config) read(w *checkpoint.Weights) error {
	c.decoderConfig = decoderConfig{RMSNormEps: defaultRMSNormEps, TieWordEmbeddings: true}
	c.GlobalHeadDim, c.HiddenActivation = 512, "gelu_pytorch_tanh"
	if err := w.Config.Decode(c); err != nil {
		return err
	}
	if len(c.LayerTypes) == 0 {
		// The default differs between transformers and mlx-lm.
		return unsupported(w, "config.json has no layer_types")
	}
	c.HiddenAct = c.HiddenActivation
	if err := c.decoderConfig.check(w); err != nil {
		return err
	}
	if c.InputVocabSize == 0 {
		c.InputVocabSize = c.VocabSize
	}
	switch last := c.LayerTypes[c.NumHiddenLayers-1]; {
	case c.HiddenAct != "gelu_pytorch_tanh":
		return unsupported(w, "hidden_activation is %q, expected gelu_pytorch_tanh", c.HiddenAct)
	case c.AttentionBias:
		return unsupported(w, "attention_bias is true, expected false")
	case c.Bidirectional == "all" || c.Bidirectional == true:
		return unsupported(w, "use_bidirectional_attention is %v, expected null or vision",
			c.Bidirectional)
	case last != fullAttention:
		return unsupported(w, "the last of layer_types is %s, expected %s", last, fullAttention)
	case c.InputSize > 0 && c.InputVocabSize != c.VocabSize:
		return unsupported(w, "vocab_size_per_layer_input is %d, expected the vocab_size of %d",
			c.InputVocabSize, c.VocabSize)
	}
	return validate(w.Config.ModelType, c.resolve()...)
}

// resolve sets layers and memoryOf. It returns an error, or nil, for each check.
func (c *gemma4Config) resolve() []error {
	err := c.resolveLayers()
	if err == nil {
		err = c.share()
	}
	faults := []error{err}
	if c.InputSize != 0 {
		faults = append(faults, positive("hidden_size_per_layer_input", c.InputSize))
	}
	if !(c.FinalLogitSoftcap >= 0) {
		faults = append(faults, fmt.Errorf("final_logit_softcapping is %g, expected 0 or more",
			c.FinalLogitSoftcap))
	}
	if !c.HasExperts {
		return faults
	}
	m := mixtureConfig{NumExperts: c.NumExperts, NumExpertsPerTok: c.TopKExperts,
		MoEIntermediateSize: c.ExpertSize}
	c.rename("num_experts_per_tok", "top_k_experts")
	if c.NumExperts == 0 { // otherwise resolve checks it
		faults = append(faults, positive("num_experts", 0))
	}
	return append(faults, m.resolve(&c.decoderConfig)...)
}

// resolveLayers sets layers.
func (c *gemma4Config) resolveLayers() error {
	for _, kind := range c.LayerTypes {
		layer := c.decoderConfig
		if kind == fullAttention && c.PerLayer == nil {
			if c.GlobalHeadDim != 0 {
				layer.HeadDim = c.GlobalHeadDim
			}
			if c.KeysAreValues && c.GlobalKVHeads != 0 {
				layer.NumKeyValueHeads = c.GlobalKVHeads
			}
		}
		c.layers = append(c.layers, layer)
	}
	for key, keys := range c.PerLayer {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(c.layers) {
			return fmt.Errorf("per_layer_config has the key %q, expected 0 to %d", key,
				len(c.layers)-1)
		}
		for name, value := range keys {
			switch name {
			case "head_dim":
				c.layers[i].HeadDim = value
			case "num_key_value_heads":
				c.layers[i].NumKeyValueHeads = value
			default:
				return fmt.Errorf("per_layer_config has the key %q in layer %d, expected "+
					"head_dim or num_key_value_heads", name, i)
			}
		}
	}
	for i := range c.layers {
		if err := errors.Join(c.layers[i].resolve()...); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return nil
}

// share sets memoryOf. The last SharedLayers layers attend to the keys and values of the last layer
// of their kind before them.
func (c *gemma4Config) share() error {
	if c.assists {
		c.memoryOf = slices.Repeat([]int{ofAnotherModel}, c.NumHiddenLayers)
		return nil
	}
	first := c.NumHiddenLayers - c.SharedLayers
	if c.SharedLayers < 0 || first < 1 {
		return fmt.Errorf("num_kv_shared_layers is %d, expected 0 to less than "+
			"num_hidden_layers of %d", c.SharedLayers, c.NumHiddenLayers)
	}
	last := map[string]int{}
	for i, kind := range c.LayerTypes {
		if i < first {
			last[kind] = i
		}
		from, ok := last[kind]
		if !ok {
			return fmt.Errorf("layer %d shares the keys of a layer with %s, but there is none in "+
				"the first %d", i, kind, first)
		}
		if a, b := &c.layers[from], &c.layers[i]; a.HeadDim != b.HeadDim ||
			a.NumKeyValueHeads != b.NumKeyValueHeads {
			return fmt.Errorf(
				"layers %d and %d have keys in common, but %d heads of %d and %d of %d", from,
				i, a.NumKeyValueHeads, a.HeadDim, b.NumKeyValueHeads, b.HeadDim)
		}
		c.memoryOf = append(c.memoryOf, from)
	}
	return nil
}

// gemma4Rope identifies the layers that have the same rotary position embedding.
type gemma4Rope struct {
	kind    string
	headDim int
}

func (c *gemma4Config) ropeOf(i int) gemma4Rope {
	return gemma4Rope{c.LayerTypes[i], c.layers[i].HeadDim}
}

// ropes returns the rotary position embeddings of all layers.
func (c *gemma4Config) ropes(w *checkpoint.Weights) (map[gemma4Rope]ops.Rope, error) {
	ropes := map[gemma4Rope]ops.Rope{}
	for i, kind := range c.LayerTypes {
		key, theta := c.ropeOf(i), 1e4
		if _, ok := ropes[key]; ok {
			continue
		}
		if kind == fullAttention {
			theta = 1e6
		}
		r, ok, err := w.Config.LayerRope(kind, checkpoint.RopeDefaults{Theta: theta})
		if !ok && kind == fullAttention {
			r.Type, r.PartialFactor = "proportional", 0.25
		}
		if err == nil {
			ropes[key], err = newRope(w, r, key.headDim)
		}
		if err != nil {
			return nil, err
		}
	}
	return ropes, nil
}

func loadGemma4(w *checkpoint.Weights) (Model, error) {
	var c gemma4Config
	if err := c.read(w); err != nil {
		return nil, err
	}
	ropes, err := c.ropes(w)
	if err != nil {
		return nil, err
	}
	from := textWeights(w)
	if c.InputSize == 0 && from.model.Shape("embed_tokens_per_layer.weight") != nil {
		return nil, unsupported(w, "there are embed_tokens_per_layer, but config.json has no "+
			"hidden_size_per_layer_input")
	}
	from.layer = func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec) {
		layer := c.layer(w, s, i, ropes[c.ropeOf(i)])
		if c.memoryOf[i] != i {
			return layer, cache.LayerSpec{}
		}
		return layer, c.layers[i].memory(i)
	}
	m := from.load(w, &c.decoderConfig)
	m.embedScale = float32(math.Sqrt(float64(c.HiddenSize)))
	m.memoryOf, m.logitCap = c.memoryOf, c.FinalLogitSoftcap
	m.assisted = c.assisted()
	if c.SharedLayers > 0 {
		m.outputs = c.NumHiddenLayers - c.SharedLayers
	}
	if c.InputSize > 0 {
		m.inputs = c.inputs(w, from.model)
	}
	return m, nil
}

// gemma4Layer implements decoderLayer.
type gemma4Layer struct {
	norms     layerNorms
	attention *nn.Attention
	mlp       nn.MLP
	experts   *gemma4Experts // or nil
	input     *gemma4Input   // or nil
	scalar    kernels.Tensor // [1, hidden], of the residual stream
}

// gemma4Experts are a mixture of experts and the norms around the mixture and the MLP.
type gemma4Experts struct {
	nn.RoutedExperts
	afterMLP, before, after kernels.Tensor // [1, hidden]
}

// gemma4Input adds the layer's part of gemma4Inputs, P columns, to the residual stream.
type gemma4Input struct {
	gate, projection *kernels.Weight // [P, hidden], [hidden, P]
	norm             kernels.Tensor  // [1, hidden]
}

// layer loads the layer s. What the layer adds to the residual stream last is multiplied by
// layer_scalar in the weights of its norm.
func (c *gemma4Config) layer(w *checkpoint.Weights, s checkpoint.Scope, i int,
	rope ops.Rope) *gemma4Layer {
	norm := func(name string) kernels.Tensor { return s.Vector(name+".weight", c.HiddenSize, 0) }
	l := &gemma4Layer{
		norms: layerNorms{
			beforeMixer: norm("input_layernorm"),
			afterMixer:  norm("post_attention_layernorm"),
			beforeMLP:   norm("pre_feedforward_layernorm"),
			afterMLP:    norm("post_feedforward_layernorm"),
		},
		attention: c.attention(w, s.Sub("self_attn"), i, rope),
	}
	width := c.IntermediateSize
	if c.DoubleWideMLP && c.memoryOf[i] != i {
		width *= 2
	}
	l.mlp = loadMLP(s.Sub("mlp"), c.HiddenSize, width)
	l.mlp.GELU = true
	if c.HasExperts {
		l.experts = &gemma4Experts{RoutedExperts: c.experts(s),
			afterMLP: norm("post_feedforward_layernorm_1"),
			before:   norm("pre_feedforward_layernorm_2"),
			after:    norm("post_feedforward_layernorm_2")}
	}
	last := l.norms.afterMLP
	if c.InputSize > 0 {
		l.input = &gemma4Input{
			gate:       s.Linear("per_layer_input_gate", c.InputSize, c.HiddenSize),
			projection: s.Linear("per_layer_projection", c.HiddenSize, c.InputSize),
			norm:       norm("post_per_layer_input_norm")}
		last = l.input.norm
	}
	scalar := s.Vector("layer_scalar", 1, 0)
	l.scalar = ones(w, c.HiddenSize)
	if w.Err() == nil && scalar.Buffer.Bytes != nil {
		scale(l.scalar, scalar.Float32s()[0])
		scale(last, scalar.Float32s()[0])
	}
	return l
}

// attention loads the attention s of layer i.
func (c *gemma4Config) attention(w *checkpoint.Weights, s checkpoint.Scope, i int,
	rope ops.Rope) *nn.Attention {
	layer := &c.layers[i]
	o := attentionOptions{rope: rope, headNorm: true, scale: 1}
	switch {
	case c.memoryOf[i] != i:
		o.kvFrom = kvOtherLayer
		s.Ignore("k_proj", "v_proj", "k_norm", "v_norm") // some checkpoints have them nevertheless
	case c.KeysAreValues && c.LayerTypes[i] == fullAttention:
		o.kvFrom = kvKeysOnly
	}
	a := layer.attention(s, o)
	a.VNorm = ones(w, layer.HeadDim)
	return a
}

// experts loads the mixture of experts of the layer s. The norm of the router has an additional
// factor of 1/sqrt(hidden).
func (c *gemma4Config) experts(s checkpoint.Scope) nn.RoutedExperts {
	root := float32(1 / math.Sqrt(float64(c.HiddenSize)))
	return nn.RoutedExperts{
		Router:      s.Linear("router.proj", c.NumExperts, c.HiddenSize),
		RouterNorm:  scale(s.Vector("router.scale", c.HiddenSize, 0), root),
		ExpertScale: s.Vector("router.per_expert_scale", c.NumExperts, 0),
		Experts:     loadExperts(s, c.NumExperts, c.HiddenSize, c.ExpertSize),
		TopK:        c.TopKExperts,
		Eps:         c.RMSNormEps,
	}
}

func (l *gemma4Layer) inputNorm() kernels.Tensor { return l.norms.beforeMixer }

func (l *gemma4Layer) forward(c *ops.Context, b *batch.Batch, h, x, input kernels.Tensor,
	memory cache.Layer, eps float32) kernels.Tensor {
	x = c.RMSNorm(l.attention.Forward(c, b, x, memory), l.norms.afterMixer, eps)
	x = l.mlp.Forward(c, c.AddRMSNorm(h, x, l.norms.beforeMLP, eps))
	if e := l.experts; e != nil {
		routed := e.Forward(c, h, c.RMSNorm(h, e.before, eps))
		x = c.Add(c.RMSNorm(x, e.afterMLP, eps), c.RMSNorm(routed, e.after, eps))
	}
	x = c.RMSNorm(x, l.norms.afterMLP, eps)
	if in := l.input; in != nil {
		c.AddTo(h, h, x)
		x = c.Linear(c.GELUMul(c.Linear(h, in.gate), input), in.projection)
		x = c.RMSNorm(x, in.norm, eps)
	}
	c.MulTo(h, h, l.scalar)
	return x
}

// gemma4Inputs implements layerInputs. The inputs of a token are its row of a second embedding plus
// a projection of its first one, normalized for each layer.
type gemma4Inputs struct {
	embedding  *kernels.Weight // [V, layers*P]
	projection *kernels.Weight // [layers*P, hidden]
	norm       kernels.Tensor  // [1, P]
	scale      float32         // of the embedding
	eps        float32
}

// inputs loads the inputs of all layers. Their sum is divided by sqrt(2), which is in the scale of
// the embedding and in the weight of the norm. The projection is divided by sqrt(hidden), which the
// norm undoes except for its epsilon.
func (c *gemma4Config) inputs(w *checkpoint.Weights, s checkpoint.Scope) *gemma4Inputs {
	width := c.NumHiddenLayers * c.InputSize
	return &gemma4Inputs{
		embedding:  s.Linear("embed_tokens_per_layer", c.VocabSize, width),
		projection: s.Linear("per_layer_model_projection", width, c.HiddenSize),
		norm: scale(s.Vector("per_layer_projection_norm.weight", c.InputSize, 0),
			math.Sqrt2/2),
		scale: float32(math.Sqrt(float64(c.InputSize) / 2)),
		eps:   c.RMSNormEps * float32(c.HiddenSize),
	}
}

func (l *gemma4Inputs) forward(c *ops.Context, tokens, h kernels.Tensor) kernels.Tensor {
	out := c.ScaledEmbed(tokens, l.embedding, l.scale)
	mark := c.Mark()
	x := c.Linear(h, l.projection)
	heads := x.Reshape(x.Rows*x.Cols/l.norm.Cols, l.norm.Cols)
	c.RMSNormTo(heads, heads, l.norm, l.eps)
	c.AddTo(out, out, x)
	c.Release(mark)
	return out
}

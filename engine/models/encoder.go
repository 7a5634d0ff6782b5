package models

// Code that encoders share: models in which every token sees the whole text, which compute vectors
// and scores and generate nothing. The tokens of a text are all in one pass, so the keys and values
// of a layer are needed only until its attention is computed, and all layers use the same memory.

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// encoders maps values of model_type to functions that load an encoder. The functions need not
// check w.Err, because Load does.
var encoders = map[string]func(w *checkpoint.Weights) (*encoder, error){
	"bert":        loadBERT,
	"modernbert":  loadModernBERT,
	"xlm-roberta": loadXLMRoBERTa,
}

// encoderLayer is one layer of an encoder.
type encoderLayer interface {
	// forward changes the residual stream h [M, hidden].
	forward(c *ops.Context, b *batch.Batch, h kernels.Tensor, memory cache.Layer)
}

// encoder is a loaded encoder of any architecture.
type encoder struct {
	spec           Spec
	wordEmbeddings *kernels.Weight
	position       *kernels.Weight // learned positions [P, hidden]; nil: none
	firstPosition  int32           // row of position of the first token
	tokenType      kernels.Tensor  // [1, hidden], added to all embeddings; or none
	embeddingNorm  layerNorm
	layers         []encoderLayer
	layersPath     string    // the prefix of their tensors, before the number
	finalNorm      layerNorm // or none
	positions      []int32   // of the tokens of a pass

	// classifier loads the head of a classifier with one class, which scores what pooling makes of
	// the hidden states. It returns none if the encoder has another one.
	classifier        func() []headLayer
	classifierPooling modelfile.Pooling
}

// layerNorm are the parameters of a LayerNorm; the zero value is none.
type layerNorm struct {
	weight, bias kernels.Tensor // [1, N]; bias may be none
	eps          float32
}

func (n *layerNorm) forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	if n.weight.IsNone() {
		return x
	}
	return c.LayerNorm(x, n.weight, n.bias, n.eps)
}

// loadLayerNorm loads the LayerNorm name of n columns.
func loadLayerNorm(s checkpoint.Scope, name string, n int, bias bool, eps float32) layerNorm {
	l := layerNorm{weight: s.Vector(name+".weight", n, 0), eps: eps}
	if bias {
		l.bias = s.Vector(name+".bias", n, 0)
	}
	return l
}

func (m *encoder) Spec() Spec { return m.spec }

func (m *encoder) layerNames(*checkpoint.Weights) layerNames {
	return layerNames{m.layersPath, len(m.layers)}
}

func (m *encoder) width() int { return m.wordEmbeddings.K }

// Forward returns the hidden states of all rows of b.
func (m *encoder) Forward(c *ops.Context, b *batch.Batch, memory []cache.Layer) kernels.Tensor {
	h := c.Embed(b.Tokens, m.wordEmbeddings) // the residual stream [M, hidden]
	mark := c.Mark()
	if m.position != nil {
		at := c.Temp(kernels.I32, h.Rows, 1)
		c.Feed(at, m.positionsOf(b), kernels.Tensor{})
		c.AddTo(h, h, c.Embed(at, m.position))
	}
	c.AddBias(h, m.tokenType)
	c.Release(mark)
	h = m.embeddingNorm.forward(c, h)
	for _, layer := range m.layers {
		mark := c.Mark()
		layer.forward(c, b, h, memory[0])
		c.Release(mark)
	}
	return m.finalNorm.forward(c, h)
}

// positionsOf returns the rows of position for the tokens of b. They are valid until the next call.
func (m *encoder) positionsOf(b *batch.Batch) []int32 {
	m.positions = m.positions[:0]
	for i := range b.Spans {
		for at := range b.Spans[i].Rows {
			m.positions = append(m.positions, m.firstPosition+int32(b.Spans[i].Pos+at))
		}
	}
	return m.positions
}

// Logits returns rows of x. withModules adds the layers after the pooling.
func (m *encoder) Logits(c *ops.Context, x kernels.Tensor, rows []int32) kernels.Tensor {
	return c.Rows(x, rows)
}

// encoderConfig holds the keys of config.json that all encoders have in common.
type encoderConfig struct {
	VocabSize             int `json:"vocab_size"`
	HiddenSize            int `json:"hidden_size"`
	IntermediateSize      int `json:"intermediate_size"`
	NumHiddenLayers       int `json:"num_hidden_layers"`
	NumAttentionHeads     int `json:"num_attention_heads"`
	MaxPositionEmbeddings int `json:"max_position_embeddings"`
}

// check checks the keys that all encoders have in common.
func (c *encoderConfig) check(w *checkpoint.Weights) error {
	return validate(w.Config.ModelType,
		positive("vocab_size", c.VocabSize), positive("hidden_size", c.HiddenSize),
		positive("intermediate_size", c.IntermediateSize),
		layers("num_hidden_layers", c.NumHiddenLayers),
		positive("max_position_embeddings", c.MaxPositionEmbeddings),
		divides("num_attention_heads", c.NumAttentionHeads, "hidden_size", c.HiddenSize))
}

func (c *encoderConfig) headDim() int { return c.HiddenSize / c.NumAttentionHeads }

// spec returns the Spec of an encoder for texts of up to context tokens.
func (c *encoderConfig) spec(context int) Spec {
	return Spec{VocabSize: c.VocabSize, ContextTokens: context,
		Layers: []cache.LayerSpec{{KVHeads: c.NumAttentionHeads, HeadDim: c.headDim()}}}
}

// geluLayer is a feed-forward part of two projections with a GELU between them.
type geluLayer struct {
	in, out nn.Linear
	ones    kernels.Tensor // [1, I]
}

func (l *geluLayer) forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	return l.out.Forward(c, c.GELUErfMul(l.in.Forward(c, x), l.ones))
}

// loadLayers loads n layers from their scopes, until the first error. Each is in s by its number.
func (m *encoder) loadLayers(w *checkpoint.Weights, s checkpoint.Scope, n int,
	layer func(i int, s checkpoint.Scope) encoderLayer) {
	m.layersPath = s.Path()
	for i := range n {
		if w.Loading(i, n); w.Err() != nil {
			return
		}
		m.layers = append(m.layers, layer(i, s.Sub("%d", i)))
	}
}

// notGELU returns the error for an activation other than GELU.
func notGELU(w *checkpoint.Weights, key, name string) error {
	return unsupported(w, "%s is %q, expected gelu", key, name)
}

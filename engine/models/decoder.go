package models

// Code that all architectures share: the common keys of config.json, and a decoder with embedding,
// layers, final norm and output head. layer.go has the layer of most architectures. The file of an
// architecture adds its other keys, its weight names and what is new in its layers.

import (
	"cmp"
	"fmt"
	"slices"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/kernels"
)

// The kinds of layers in layer_types.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
	linearAttention  = "linear_attention"
	convolution      = "conv"
)

// decoderConfig holds the keys of config.json that all architectures have in common.
type decoderConfig struct {
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

	// The keys below do not matter to all architectures.
	HiddenAct     string   `json:"hidden_act"`
	AttentionBias bool     `json:"attention_bias"` // of q, k, v and o_proj
	MLPBias       bool     `json:"mlp_bias"`
	SlidingWindow int      `json:"sliding_window"`
	LayerTypes    []string `json:"layer_types"`
	// RopeTraditional is a key of mlx-lm: the rope rotates each dimension with the next one.
	// Architectures that always do so set it.
	RopeTraditional bool `json:"rope_traditional"`

	// names has the keys that are called otherwise in this config.json, for errors.
	names map[string]string
}

// rename says that a key is called name in this config.json.
func (c *decoderConfig) rename(key, name string) {
	if c.names == nil {
		c.names = map[string]string{}
	}
	c.names[key] = name
}

// key returns what a key is called in this config.json.
func (c *decoderConfig) key(key string) string { return cmp.Or(c.names[key], key) }

// defaultRMSNormEps is the default of rms_norm_eps in transformers.
const defaultRMSNormEps = 1e-6

// newDecoderConfig returns the defaults that most architectures have in transformers.
func newDecoderConfig() decoderConfig {
	return decoderConfig{RMSNormEps: defaultRMSNormEps, HiddenAct: "silu"}
}

// read decodes config.json into config, which embeds c, and checks the keys in c.
func (c *decoderConfig) read(w *checkpoint.Weights, config any) error {
	if err := w.Config.Decode(config); err != nil {
		return err
	}
	return c.check(w)
}

// readSliding is read for an architecture in which every layer has a sliding window if there is a
// sliding_window but no layer_types.
func (c *decoderConfig) readSliding(w *checkpoint.Weights) error {
	if err := w.Config.Decode(c); err != nil {
		return err
	}
	c.slideFrom(0)
	return c.check(w)
}

// check checks the keys of an architecture with attention and an MLP in every layer. Then every
// layer has a kind in LayerTypes.
func (c *decoderConfig) check(w *checkpoint.Weights) error {
	if !c.isSiLU() && !c.isGELU() {
		return unsupported(w, "hidden_act is %q, expected silu or gelu_pytorch_tanh", c.HiddenAct)
	}
	if err := c.checkPairs(w); err != nil {
		return err
	}
	faults := append(c.resolve(), positive("intermediate_size", c.IntermediateSize))
	return validate(w.Config.ModelType, append(faults, c.fillLayerTypes()...)...)
}

// checkSiLU checks the keys of an architecture whose MLPs or experts have only SiLU.
func (c *decoderConfig) checkSiLU(w *checkpoint.Weights) error {
	if !c.isSiLU() {
		return unsupported(w, "hidden_act is %q, expected silu", c.HiddenAct)
	}
	return c.checkPairs(w)
}

// checkPairs checks which dimensions of a head are rotated together.
func (c *decoderConfig) checkPairs(w *checkpoint.Weights) error {
	if c.RopeTraditional {
		return unsupported(w, "rope_traditional is true, expected false")
	}
	return nil
}

// fillLayerTypes gives every layer full attention if there is no layer_types. It checks layer_types
// and the sliding window, and returns an error, or nil, for each check.
func (c *decoderConfig) fillLayerTypes() []error {
	interval := 0
	if len(c.LayerTypes) == 0 {
		interval = 1
	}
	var err error
	c.LayerTypes, err = c.layerTypes(c.LayerTypes, interval, slidingAttention)
	if slices.Contains(c.LayerTypes, slidingAttention) {
		return []error{err, positive("sliding_window", c.SlidingWindow)}
	}
	return []error{err}
}

func (c *decoderConfig) isSiLU() bool { return c.HiddenAct == "silu" || c.HiddenAct == "swish" }

// isGELU reports whether the activation is GELU in its tanh approximation.
func (c *decoderConfig) isGELU() bool {
	return c.HiddenAct == "gelu_pytorch_tanh" || c.HiddenAct == "gelu_new"
}

// resolve sets head_dim and num_key_value_heads if they are missing. It checks the keys that matter
// to all architectures, except intermediate_size, which a mixture of experts may omit. It returns
// an error, or nil, for each check.
func (c *decoderConfig) resolve() []error {
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	return []error{
		positive("vocab_size", c.VocabSize),
		positive("hidden_size", c.HiddenSize),
		layers("num_hidden_layers", c.NumHiddenLayers),
		epsilon(c.key("rms_norm_eps"), c.RMSNormEps),
		positive("head_dim", c.HeadDim),
		positive("max_position_embeddings", c.MaxPositionEmbeddings),
		divides("num_key_value_heads", c.NumKeyValueHeads,
			"num_attention_heads", c.NumAttentionHeads),
	}
}

// slideFrom gives all layers from the given one on a sliding window, if there is a sliding_window.
// It does nothing if config.json has layer_types.
func (c *decoderConfig) slideFrom(layer int) {
	if len(c.LayerTypes) > 0 || c.SlidingWindow == 0 {
		return
	}
	for i := range min(c.NumHiddenLayers, maxLayers) {
		kind := fullAttention
		if i >= layer {
			kind = slidingAttention
		}
		c.LayerTypes = append(c.LayerTypes, kind)
	}
}

// layerTypes returns the kind of every layer. kinds is layer_types in config.json. If kinds is
// empty, every interval-th layer has full attention, and the others are of the kind other.
func (c *decoderConfig) layerTypes(kinds []string, interval int, other string) ([]string, error) {
	if len(kinds) == 0 && interval > 0 {
		for i := range min(c.NumHiddenLayers, maxLayers) {
			kind := other
			if (i+1)%interval == 0 {
				kind = fullAttention
			}
			kinds = append(kinds, kind)
		}
		return kinds, nil
	}
	if len(kinds) != c.NumHiddenLayers {
		return kinds, fmt.Errorf("%s has %d entries for num_hidden_layers of %d",
			c.key("layer_types"), len(kinds), c.NumHiddenLayers)
	}
	for i, kind := range kinds {
		if kind != other && kind != fullAttention {
			return kinds, fmt.Errorf("%s[%d] is %q, expected %s or %s", c.key("layer_types"), i,
				kind, other, fullAttention)
		}
	}
	return kinds, nil
}

// attentionSpec returns the cache memory of a layer with full attention.
func (c *decoderConfig) attentionSpec() cache.LayerSpec {
	return cache.LayerSpec{KVHeads: c.NumKeyValueHeads, HeadDim: c.HeadDim}
}

// decoderLayer is one layer of an architecture.
type decoderLayer interface {
	// inputNorm returns the weight [1, hidden] of the norm before the layer, or none.
	inputNorm() kernels.Tensor
	// forward computes the layer. h is the residual stream, and x is h after the norm, or h if
	// there is none. Both are [M, hidden]. input is the layer's part of decoder.inputs, or none.
	// forward adds the output of attention to h. It returns the output of the MLP [M, hidden],
	// which the decoder then adds to h.
	forward(c *ops.Context, b *batch.Batch, h, x, input kernels.Tensor, memory cache.Layer,
		eps float32) kernels.Tensor
}

// layerInputs computes what the layers of some architectures read of the tokens besides the
// residual stream.
type layerInputs interface {
	// forward returns the inputs [M, layers*P] of all layers, P columns for each, from the tokens
	// I32 [M, 1] and their embeddings h [M, hidden].
	forward(c *ops.Context, tokens, h kernels.Tensor) kernels.Tensor
}

// decoder is a loaded model of any architecture.
type decoder struct {
	spec        Spec
	eps         float32
	embedTokens *kernels.Weight
	embedScale  float32
	embedNorm   kernels.Tensor // [1, hidden], normalizes the scaled embeddings, or none
	layers      []decoderLayer
	norm        kernels.Tensor
	finalNorm   layerNorm       // instead of norm, or none
	lmHead      *kernels.Weight // equal to embedTokens if the weights are tied

	inputs   layerInputs // or nil
	memoryOf []int       // the layer whose memory each layer uses; nil: its own
	// sideStates says that every layer has a recurrent state beside its keys and values: layer i
	// that of memory len(layers)+i.
	sideStates bool
	// outputs is the first of the last layers if these write no memory, else 0. They compute only
	// the rows of batch.Outputs, and the first has a norm before it.
	outputs  int
	logitCap float32 // the limit of ops.SoftCap for the logits; 0: none
	// bidirectional says that tokens see those that follow. A pass then has whole texts, and all
	// layers use the memory of the first.
	bidirectional bool

	loadMTP func() (*mtp, cache.LayerSpec) // loads the block that drafts, if there is one
	mtp     *mtp                           // or nil
	dflash  *dflash                        // or nil

	assistant *assistant // or nil
	assisted  *assisted  // what an assistant has to know of a model that may have one, or nil
}

// decoderWeights locates the weights of a decoder in a checkpoint.
type decoderWeights struct {
	model      checkpoint.Scope // has embed_tokens, layers and norm
	head       checkpoint.Scope // has lm_head
	normOffset float32          // added to norm weights: 1 if they are stored zero-centred, else 0
	norm       string           // the module of the final norm; "": norm
	embedding  string           // the module of the embedding; "": embed_tokens
	centred    *layerNormConfig // of the final norm, if it is a LayerNorm; nil: it is not
	// layer loads layer i from its scope, and returns the cache memory that it needs.
	layer func(i int, s checkpoint.Scope) (decoderLayer, cache.LayerSpec)
	// blockLayer loads the layer of the block that drafts (blocks.go), a transformerLayer. offset
	// is added to norm weights. nil: it is layer number num_hidden_layers.
	blockLayer func(s checkpoint.Scope, offset float32) (decoderLayer, cache.LayerSpec)
}

// textWeights locates the language model in a checkpoint that may also contain a vision tower.
func textWeights(w *checkpoint.Weights) decoderWeights {
	d := decoderWeights{
		model: w.At("language_model.model.", "model.language_model.", "model."),
		head:  w.At("language_model.", ""),
	}
	if w.Config.Modules != nil && !d.model.Has("embed_tokens.weight") { // without a head
		d.model = w.At("")
	}
	// The names of Nemotron-H are those of its predecessors, Mamba.
	if b := w.At("backbone."); !d.model.Has("embed_tokens.weight") && b.Has("embeddings.weight") {
		d.model = b
	}
	if !d.head.Has("lm_head.weight") { // only other tensors have the prefix, such as MTP's
		d.head = w.At("")
	}
	return d
}

// ties reports whether the embedding is the head, too. A head that differs from it is used even if
// config.json ties both, as in transformers 5, because it was trained separately. One of another
// type may still have the same values. One that is not packed and of another shape, such as that of
// a model before it got more tokens, cannot be the head of this model.
func (from decoderWeights) ties(c *decoderConfig) bool {
	if !c.TieWordEmbeddings || !from.head.Has("lm_head.weight") {
		return c.TieWordEmbeddings
	}
	if !from.head.Has("lm_head.scales") && from.head.IsFloat("lm_head.weight") &&
		!slices.Equal(from.head.Shape("lm_head.weight"), []int{c.VocabSize, c.HiddenSize}) {
		return true
	}
	embedding := cmp.Or(from.embedding, "embed_tokens")
	for _, suffix := range []string{".scales", ".biases"} { // of MLX
		head, other := "lm_head"+suffix, embedding+suffix
		if from.head.Has(head) != from.model.Has(other) ||
			from.head.Has(head) && !from.head.Equals(head, from.model, other) {
			return false
		}
	}
	return from.head.Equals("lm_head.weight", from.model, embedding+".weight")
}

// load builds the decoder that c describes. It stops at the first error, which w.Err returns.
func (from decoderWeights) load(w *checkpoint.Weights, c *decoderConfig) *decoder {
	m := &decoder{
		spec: Spec{VocabSize: c.VocabSize, ContextTokens: c.MaxPositionEmbeddings},
		eps:  c.RMSNormEps,
		embedTokens: from.model.Linear(cmp.Or(from.embedding, "embed_tokens"), c.VocabSize,
			c.HiddenSize),
		embedScale: 1,
		loadMTP:    from.blockLoader(w, c),
	}
	if name := cmp.Or(from.norm, "norm"); from.centred != nil {
		m.finalNorm = from.centred.norm(from.model, name)
	} else {
		m.norm = from.model.Vector(name+".weight", c.HiddenSize, from.normOffset)
	}
	m.lmHead = m.embedTokens
	if hasHead(w) && !from.ties(c) {
		m.lmHead = from.head.Linear("lm_head", c.VocabSize, c.HiddenSize)
	}
	for i := range c.NumHiddenLayers {
		if w.Loading(i, c.NumHiddenLayers); w.Err() != nil {
			break
		}
		layer, spec := from.layer(i, from.model.Sub("layers.%d", i))
		m.layers = append(m.layers, layer)
		m.spec.Layers = append(m.spec.Layers, spec)
	}
	return m
}

func (m *decoder) Spec() Spec { return m.spec }

func (m *decoder) layerNames(w *checkpoint.Weights) layerNames {
	return layerNames{textWeights(w).model.Path() + "layers.", len(m.layers)}
}

func (m *decoder) Forward(c *ops.Context, b *batch.Batch, memory []cache.Layer) kernels.Tensor {
	h := m.scaledEmbed(c, b.Tokens) // the residual stream [M, hidden]
	if !m.embedNorm.IsNone() {
		c.RMSNormTo(h, h, m.embedNorm, m.eps)
	}
	outputs := b.Outputs
	var inputs kernels.Tensor
	if m.inputs != nil {
		inputs = m.inputs.forward(c, b.Tokens, h)
	}
	var features kernels.Tensor
	if m.dflash != nil {
		features = m.dflash.features(c, h)
	}
	normed := c.Temp(kernels.F32, h.Rows, h.Cols)
	x := h
	if norm := m.layers[0].inputNorm(); !norm.IsNone() {
		x = normed
		c.RMSNormTo(x, h, norm, m.eps)
	}
	for i, layer := range m.layers {
		if c.Stopped() {
			return x
		}
		if o := b.Outputs; o != nil && i == m.outputs && i > 0 {
			if len(o.Rows) == 0 {
				return x
			}
			h, x, inputs = selectRows(c, o, h, x, inputs)
			b, normed = &o.Batch, x
		}
		mark := c.Mark()
		own := memory[m.memory(i)]
		if m.sideStates {
			beside := memory[len(m.layers)+i]
			own.Conv, own.State = beside.Conv, beside.State
		}
		delta := layer.forward(c, b, h, x, m.inputOf(inputs, i), own, m.eps)
		nextNorm := m.norm
		if i+1 < len(m.layers) {
			nextNorm = m.layers[i+1].inputNorm()
		}
		if x = normed; nextNorm.IsNone() {
			x = h
		}
		c.AddRMSNormTo(x, h, delta, nextNorm, m.eps)
		if m.dflash != nil {
			m.dflash.keep(c, i, h, features)
		}
		c.Release(mark)
	}
	if c.Stopped() {
		return x
	}
	if m.dflash != nil {
		m.dflash.append(c, b, features, memory[len(m.layers):])
	}
	if m.mtp != nil {
		m.mtp.append(c, b, m.embedTokens, x, memory[len(m.layers)], m.eps)
	}
	if m.assistant != nil {
		m.assistant.keep(c, outputs, x, memory[len(m.layers)].Recent)
	}
	return m.finalNorm.forward(c, x)
}

// scaledEmbed returns the embeddings [M, hidden] of tokens.
func (m *decoder) scaledEmbed(c *ops.Context, tokens kernels.Tensor) kernels.Tensor {
	return c.ScaledEmbed(tokens, m.embedTokens, m.embedScale)
}

// selectRows returns the selected rows of the residual stream h, of x, which is h after the norm,
// and of the inputs of all layers. The operators that follow get only these rows.
func selectRows(c *ops.Context, o *batch.Outputs, h, x, inputs kernels.Tensor) (_, _,
	_ kernels.Tensor) {
	c.SetPrefill(o.Batch.Spans)
	if len(o.Rows) == h.Rows {
		return h, x, inputs
	}
	if !inputs.IsNone() {
		inputs = c.Rows(inputs, o.Rows)
	}
	return c.Rows(h, o.Rows), c.Rows(x, o.Rows), inputs
}

func (m *decoder) Logits(c *ops.Context, x kernels.Tensor, rows []int32) kernels.Tensor {
	return m.capped(c, c.Logits(x, rows, m.lmHead))
}

// capped limits logits if the model does so, and returns them.
func (m *decoder) capped(c *ops.Context, logits kernels.Tensor) kernels.Tensor {
	if m.logitCap > 0 {
		c.SoftCap(logits, m.logitCap)
	}
	return logits
}

// inputOf returns the columns of inputs that layer i reads.
func (m *decoder) inputOf(inputs kernels.Tensor, i int) kernels.Tensor {
	if inputs.IsNone() {
		return inputs
	}
	width := inputs.Cols / len(m.layers)
	return inputs.Columns(i*width, (i+1)*width)
}

// memory returns the index of the layer whose memory layer i uses.
func (m *decoder) memory(i int) int {
	switch {
	case m.bidirectional:
		return 0
	case m.memoryOf == nil:
		return i
	}
	return m.memoryOf[i]
}

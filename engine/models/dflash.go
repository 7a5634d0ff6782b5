package models

// Block diffusion (DFlash): a drafter with weights of its own, which drafts a block of tokens in
// one pass. It has the layers of Qwen3. Its input is a token and then masks, whose outputs predict
// the tokens at their own positions. Embedding and head are the model's.
//
// Every position before the block has keys and values that come from the model: its hidden states
// after some of its layers, side by side, go through a projection and a norm, and from there
// through each layer's own projections of keys and values.
//
//	context = rmsnorm(fc([output of layer t0 at i, output of layer t1 at i, ...]))
//	k, v = rope(rmsnorm(k_proj(context))), v_proj(context)
//
// They depend on tokens up to their position alone. So each drafter's layer is one more layer of
// the pages, a pass over the model adds them for all of its rows, and they are shared, kept and
// restored with the others. In the block, a row also sees the rows after it, unless the drafter is
// causal. What the block writes is overwritten when the model has computed these positions.
//
// Sources: Chen, Liang and Liu 2026, "DFlash: Block Diffusion for Flash Speculative Decoding", and
// its code (z-lab/dflash); mlx-vlm, speculative/drafters/qwen3_dflash.

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Block describes a drafter that drafts a block of tokens in one pass.
type Block struct {
	Drafts  int   // maximum number of tokens that it drafts in a pass
	Mask    int32 // the token that stands for each of them
	Windows bool  // some of its layers have a window, which no cache with a start allows
}

// dflash is a loaded drafter. The memory of its layers is the last entries of Spec.Layers.
type dflash struct {
	targets          []int           // the model's layers whose output it reads, in ascending order
	fc               *kernels.Weight // [hidden, len(targets)*hidden]
	hiddenNorm, norm kernels.Tensor  // [1, hidden]
	embedTokens      *kernels.Weight // its own, or the model's
	embedScale       float32
	layers           []transformerLayer
	attention        []*nn.Attention // of layers
	eps              float32
	rows             []int32 // all rows of a pass
}

// dflashKeys are keys of config.json that are in dflash_config or at the top level.
type dflashKeys struct {
	BlockSize       int     `json:"block_size"`
	MaskTokenID     *int    `json:"mask_token_id"`
	TargetLayerIDs  []int   `json:"target_layer_ids"`
	NumTargetLayers int     `json:"num_target_layers"`
	InputScale      float32 `json:"input_embedding_scale"`
	Causal          *bool   `json:"causal"`
}

type dflashConfig struct {
	decoderConfig
	dflashKeys
	// IsCausal and QueryCausal are older names of causal. If there is none, layers with a window
	// are causal, and the others are not.
	IsCausal    *bool `json:"is_causal"`
	QueryCausal *bool `json:"dflash_query_causal"`
}

// defaultBlockSize is the default of block_size.
const defaultBlockSize = 16

// IsDFlash reports whether a config.json describes a drafter of this kind, or one that is like it.
func IsDFlash(c *checkpoint.Config) bool {
	return c.Has("dflash_config") || c.ModelType == "dflash" ||
		slices.ContainsFunc(c.Architectures, func(class string) bool {
			return strings.HasPrefix(class, "DFlash")
		})
}

// CheckDFlash returns an error, which says why, unless a drafter of this kind has the shapes of
// the model. It reads no weights; AddDFlash checks more.
func CheckDFlash(model, drafter *checkpoint.Config) error {
	return checkDrafterShape(model, drafter)
}

// AddDFlash adds a drafter of this kind to a model that Load has returned. Spec().Block then
// describes it. The weights of the drafter are valid until w is closed. An error that is no Problem
// says why the two do not fit together.
func AddDFlash(to Model, w *checkpoint.Weights) error {
	m, ok := to.(*decoder)
	if !ok || m.bidirectional || m.outputs > 0 {
		return errors.New("no DFlash drafter can draft for an architecture like that of the " +
			"large model")
	}
	c := dflashConfig{decoderConfig: newDecoderConfig()}
	c.BlockSize = defaultBlockSize
	if err := c.read(w); err != nil {
		return err
	}
	if err := c.fits(m); err != nil {
		return err
	}
	rope, err := c.rope(w, checkpoint.RopeDefaults{Theta: qwen3RopeTheta})
	if err != nil {
		return err
	}
	m.addDFlash(&c, w, rope)
	return cmp.Or(w.Err(), checkHeads(m.spec, w), checkDrafterUnread(w, "DFlash"))
}

// read decodes config.json into c, which has the defaults.
func (c *dflashConfig) read(w *checkpoint.Weights) error {
	if err := c.decoderConfig.read(w, c); err != nil {
		return err
	}
	inner := struct {
		Keys *dflashKeys `json:"dflash_config"`
	}{&c.dflashKeys}
	if err := w.Config.Decode(&inner); err != nil {
		return err
	}
	c.Causal = cmp.Or(c.Causal, c.QueryCausal, c.IsCausal)
	return nil
}

// fits returns an error unless the drafter can draft for m.
func (c *dflashConfig) fits(m *decoder) error {
	hidden, vocab, layers := m.embedTokens.K, m.spec.VocabSize, len(m.layers)
	switch {
	case c.HiddenSize != hidden:
		return fmt.Errorf("its hidden_size is %d, the large model's is %d", c.HiddenSize, hidden)
	case c.VocabSize != vocab:
		return fmt.Errorf("its vocab_size is %d, the large model's is %d", c.VocabSize, vocab)
	case c.NumTargetLayers != 0 && c.NumTargetLayers != layers:
		return fmt.Errorf("it drafts for a model of %d layers, the large model has %d",
			c.NumTargetLayers, layers)
	case len(c.TargetLayerIDs) == 0 || len(c.TargetLayerIDs) > maxLayers:
		return fmt.Errorf("target_layer_ids has %d entries, expected 1 to %d",
			len(c.TargetLayerIDs), maxLayers)
	case c.BlockSize < 2 || c.BlockSize > maxLayers:
		return fmt.Errorf("block_size is %d, expected 2 to %d", c.BlockSize, maxLayers)
	case !(c.InputScale >= 0 && c.InputScale <= math.MaxFloat32):
		return fmt.Errorf("input_embedding_scale is %g, expected a finite number of 0 or more",
			c.InputScale)
	case c.MaskTokenID == nil:
		return errors.New("config.json has no mask_token_id")
	case *c.MaskTokenID < 0 || *c.MaskTokenID >= vocab:
		return fmt.Errorf("mask_token_id is %d, the large model has tokens 0 to %d",
			*c.MaskTokenID, vocab-1)
	}
	for _, t := range c.TargetLayerIDs {
		if t < 0 || t >= layers {
			return fmt.Errorf("target_layer_ids has layer %d, the large model has layers 0 to %d",
				t, layers-1)
		}
	}
	return nil
}

// addDFlash loads the drafter of m.
func (m *decoder) addDFlash(c *dflashConfig, w *checkpoint.Weights, rope ops.Rope) {
	s, hidden := w.At("model.", ""), c.HiddenSize
	p := &dflash{targets: c.TargetLayerIDs, eps: c.RMSNormEps,
		fc:          s.Linear("fc", hidden, len(c.TargetLayerIDs)*hidden),
		hiddenNorm:  s.Vector("hidden_norm.weight", hidden, 0),
		norm:        s.Vector("norm.weight", hidden, 0),
		embedTokens: m.embedTokens, embedScale: cmp.Or(c.InputScale, m.embedScale)}
	if len(s.Shape("embed_tokens.weight")) > 0 {
		p.embedTokens = s.Linear("embed_tokens", c.VocabSize, hidden)
	}
	block := &Block{Drafts: c.BlockSize - 1, Mask: int32(*c.MaskTokenID)}
	for i := range c.NumHiddenLayers {
		if w.Err() != nil {
			return
		}
		l, o := s.Sub("layers.%d", i), c.qwen3Attention()
		o.rope = rope
		window := 0
		if c.LayerTypes[i] == slidingAttention {
			window, block.Windows = c.SlidingWindow, true
		}
		if o.bidirectional = !c.causal(window); o.bidirectional && window > 0 {
			o.fullWindow = window - 1
		}
		a := c.attention(l.Sub("self_attn"), o)
		if !o.bidirectional {
			a.Window = window
		}
		p.attention = append(p.attention, a)
		p.layers = append(p.layers, transformerLayer{norms: c.preNorms(l, 0), mixer: a,
			mlp: c.mlp(l.Sub("mlp"))})
		spec := c.attentionSpec()
		spec.Drafts = true
		m.spec.Layers = append(m.spec.Layers, spec)
	}
	m.dflash, m.spec.Block = p, block
}

// causal reports whether the rows of a block do not see those after them, in a layer with a window
// or, if that is 0, without.
func (c *dflashConfig) causal(window int) bool {
	if c.Causal != nil {
		return *c.Causal
	}
	return window > 0
}

// checkDrafterUnread returns a Problem if the drafter has tensors that nothing reads: it is then of
// another kind. Heads that are copies of an embedding are not read.
func checkDrafterUnread(w *checkpoint.Weights, kind string) error {
	for _, name := range w.Unread() {
		known := strings.Contains(name, "lm_head.") || slices.ContainsFunc(harmless,
			func(suffix string) bool { return strings.HasSuffix(name, suffix) })
		if !known {
			return unsupported(w, "the drafter has the tensor %s, which %s has not",
				modelfile.Excerpt(name), kind)
		}
	}
	return nil
}

// features returns room [M, len(targets)*hidden] for what the drafter reads of a pass.
func (p *dflash) features(c *ops.Context, h kernels.Tensor) kernels.Tensor {
	for len(p.rows) < h.Rows {
		p.rows = append(p.rows, int32(len(p.rows)))
	}
	return c.Temp(kernels.F32, h.Rows, len(p.targets)*h.Cols)
}

// keep copies h [M, hidden], the output of a layer of the model, to features if the drafter reads
// it.
func (p *dflash) keep(c *ops.Context, layer int, h, features kernels.Tensor) {
	for i, t := range p.targets {
		if t == layer {
			rows := p.rows[:h.Rows]
			c.MoveRows(features.Columns(i*h.Cols, (i+1)*h.Cols), h, rows, rows)
		}
	}
}

// append adds the keys and values of the rows of b to the memory of the drafter's layers.
func (p *dflash) append(c *ops.Context, b *batch.Batch, features kernels.Tensor,
	memory []cache.Layer) {
	mark := c.Mark()
	x := c.RMSNorm(c.Linear(features, p.fc), p.hiddenNorm, p.eps)
	for i, a := range p.attention {
		mark := c.Mark()
		a.Append(c, b, x, memory[i])
		c.Release(mark)
	}
	c.Release(mark)
}

// draft computes blocks: each span of b is one. It returns their hidden states [M, hidden].
func (p *dflash) draft(c *ops.Context, b *batch.Batch, memory []cache.Layer) kernels.Tensor {
	h := c.ScaledEmbed(b.Tokens, p.embedTokens, p.embedScale)
	x := c.Temp(kernels.F32, h.Rows, h.Cols)
	c.RMSNormTo(x, h, p.layers[0].norms.beforeMixer, p.eps)
	for i := range p.layers {
		mark := c.Mark()
		delta := p.layers[i].forward(c, b, h, x, kernels.Tensor{}, memory[i], p.eps)
		next := p.norm
		if i+1 < len(p.layers) {
			next = p.layers[i+1].norms.beforeMixer
		}
		c.AddRMSNormTo(x, h, delta, next, p.eps)
		c.Release(mark)
	}
	return x
}

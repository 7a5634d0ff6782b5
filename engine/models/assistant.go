package models

// The assistant of Gemma 4: a drafter with weights of its own and without keys and values of its
// own. It has a few narrow layers of Gemma 4. Each attends to the keys and values of the model's
// last layer of the same kind that writes some: with a sliding window, or with full attention. Its
// input is the model's embedding of a token beside the hidden state before it, after the model's
// final norm, and its output goes two ways: through a projection it is the next hidden state, and
// through its own head the logits of the next token.
//
//	h = pre_projection([embed(token i), hidden i-1])
//	out = rmsnorm(layers(h)),  hidden i = post_projection(out),  logits = head(out)
//
// All drafts of a pass are made at one position, that of the last token which the model has
// computed: queries are rotated there and see the keys up to there. So nothing is written, and
// what it drafts depends on the model's memory and one hidden state alone. The hidden states of the
// last rows whose logits a pass has computed are kept (cache.LayerSpec.RecentValues), because any
// of them may be that of the last right draft.
//
// The head of some sizes scores only a part of the vocabulary: each token belongs to one of many
// clusters, and only those of the best clusters count.
//
// Sources: mlx-vlm, speculative/drafters/gemma4_assistant, and transformers,
// models/gemma4_assistant. mlx-vlm and vLLM draft at the position above. transformers drafts at the
// position after it.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/kernels"
)

// ofAnotherModel stands in gemma4Config.memoryOf for a layer of another model.
const ofAnotherModel = -1

// assistantTypes are the values of model_type of assistants.
var assistantTypes = []string{"gemma4_assistant", "gemma4_unified_assistant"}

// assistedTypes are the values of model_type of the models that they draft for.
var assistedTypes = []string{"gemma4", "gemma4_text", "gemma4_unified"}

// assisted is what an assistant has to know of its model.
type assisted struct {
	sources map[string]assistedLayer // by kind of layer
	window  int                      // of layers with a sliding window
}

// assistedLayer is a layer to whose keys and values an assistant attends.
type assistedLayer struct{ memory, kvHeads, headDim int }

// assistant is a loaded assistant. Its memory is the last entry of Spec.Layers.
type assistant struct {
	pre, post *kernels.Weight // [H, 2*hidden], [hidden, H]
	layers    []*gemma4Layer
	sources   []int          // the memory that each layer attends to
	norm      kernels.Tensor // [1, H]
	head      *kernels.Weight
	clusters  *clusters // or nil
	eps       float32

	from, to, rows []int32 // memory of keep and draft
}

type assistantConfig struct {
	gemma4Config
	BackboneSize int  `json:"backbone_hidden_size"`
	Ordered      bool `json:"use_ordered_embeddings"`
	Centroids    int  `json:"num_centroids"`
	TopCentroids int  `json:"centroid_intermediate_top_k"`
}

// assistantShape are the keys of an assistant's config.json that its model has, too.
type assistantShape struct {
	BackboneSize int `json:"backbone_hidden_size"`
	VocabSize    int `json:"vocab_size"`
}

func isAssistant(c *checkpoint.Config) bool { return slices.Contains(assistantTypes, c.ModelType) }

// checkAssistant implements Attached.Check.
func checkAssistant(model, drafter *checkpoint.Config) error {
	if !slices.Contains(assistedTypes, model.ModelType) {
		return fmt.Errorf("it drafts for models of type gemma4, this one is of type %s",
			model.ModelType)
	}
	var want blockShape
	var got assistantShape
	if err := cmp.Or(model.Decode(&want), drafter.Decode(&got)); err != nil {
		return err
	}
	return compareShapes(blockShape{HiddenSize: got.BackboneSize, VocabSize: got.VocabSize}, want)
}

// addAssistant implements Attached.Add.
func addAssistant(to Model, w *checkpoint.Weights) error {
	m, ok := to.(*decoder)
	if !ok || m.assisted == nil {
		return errors.New("no assistant of Gemma 4 can draft for an architecture like that of " +
			"the large model")
	}
	c := assistantConfig{gemma4Config: gemma4Config{assists: true}, Centroids: 2048,
		TopCentroids: 32}
	if err := cmp.Or(w.Config.Decode(&c), c.read(w)); err != nil {
		return err
	}
	if err := c.fits(m); err != nil {
		return err
	}
	ropes, err := c.ropes(w)
	if err != nil {
		return err
	}
	m.addAssistant(&c, w, ropes)
	return cmp.Or(w.Err(), checkDrafterUnread(w, "an assistant of Gemma 4"))
}

// fits returns an error unless the assistant can draft for m.
func (c *assistantConfig) fits(m *decoder) error {
	hidden, vocab := m.embedTokens.K, m.spec.VocabSize
	switch {
	case c.BackboneSize != hidden:
		return fmt.Errorf("its backbone_hidden_size is %d, the large model's hidden_size is %d",
			c.BackboneSize, hidden)
	case c.VocabSize != vocab:
		return fmt.Errorf("its vocab_size is %d, the large model's is %d", c.VocabSize, vocab)
	case c.HasExperts || c.InputSize > 0:
		return errors.New("it has experts or inputs per layer, which no assistant has")
	case c.Ordered:
		if err := checkClusters(c.VocabSize, c.Centroids, c.TopCentroids); err != nil {
			return err
		}
	}
	for i, kind := range c.LayerTypes {
		own := &c.layers[i]
		source, ok := m.assisted.sources[kind]
		if !ok {
			return fmt.Errorf("its layer %d is of the kind %s, of which the large model has none",
				i, kind)
		}
		if own.NumKeyValueHeads != source.kvHeads || own.HeadDim != source.headDim {
			return fmt.Errorf("its layer %d attends to %d heads of %d, the large model has %d of "+
				"%d", i, own.NumKeyValueHeads, own.HeadDim, source.kvHeads, source.headDim)
		}
		if kind == slidingAttention && c.SlidingWindow != m.assisted.window {
			return fmt.Errorf("its sliding_window is %d, the large model's is %d",
				c.SlidingWindow, m.assisted.window)
		}
	}
	return nil
}

// assisted describes the model for an assistant.
func (c *gemma4Config) assisted() *assisted {
	a := &assisted{sources: map[string]assistedLayer{}, window: c.SlidingWindow}
	for i, kind := range c.LayerTypes {
		layer := &c.layers[i]
		a.sources[kind] = assistedLayer{c.memoryOf[i], layer.NumKeyValueHeads, layer.HeadDim}
	}
	return a
}

// addAssistant loads the assistant of m.
func (m *decoder) addAssistant(c *assistantConfig, w *checkpoint.Weights,
	ropes map[gemma4Rope]ops.Rope) {
	top, model, size := w.At(""), w.At("model."), c.HiddenSize
	p := &assistant{eps: c.RMSNormEps,
		pre:  top.Linear("pre_projection", size, 2*c.BackboneSize),
		post: top.Linear("post_projection", c.BackboneSize, size),
		norm: model.Vector("norm.weight", size, 0)}
	for i, kind := range c.LayerTypes {
		if w.Err() != nil {
			return
		}
		s := model.Sub("layers.%d", i)
		p.layers = append(p.layers, c.layer(w, s, i, ropes[c.ropeOf(i)]))
		p.sources = append(p.sources, m.assisted.sources[kind].memory)
	}
	if c.TieWordEmbeddings || c.Ordered {
		p.head = model.Linear("embed_tokens", c.VocabSize, size)
	} else {
		p.head = top.Linear("lm_head", c.VocabSize, size)
		model.Ignore("embed_tokens")
	}
	if c.Ordered {
		p.clusters = loadClusters(w, c)
	}
	m.assistant = p
	m.spec.Drafts, m.spec.InPlace, m.spec.HostDrafts = true, true, c.Ordered
	if p.clusters == nil {
		m.spec.Shortlist = shortlist(c.VocabSize)
	}
	m.spec.Layers = append(m.spec.Layers,
		cache.LayerSpec{RecentValues: c.BackboneSize, Drafts: true})
}

// keep copies the hidden states x of the last rows of each sequence whose logits are computed to
// recent. x has all rows of the batch, or those of outputs.
func (p *assistant) keep(c *ops.Context, outputs *batch.Outputs, x, recent kernels.Tensor) {
	if outputs == nil {
		return
	}
	p.from, p.to = p.from[:0], p.to[:0]
	spans := outputs.Batch.Spans
	for i, s := range spans {
		if i+1 < len(spans) && spans[i+1].Slot == s.Slot {
			continue // earlier rows of the same sequence
		}
		for n := max(0, s.Rows-cache.RecentTokens); n < s.Rows; n++ {
			row := int32(s.Row + n)
			if x.Rows != len(outputs.Rows) {
				row = outputs.Rows[row]
			}
			p.from, p.to = append(p.from, row), append(p.to, cache.RecentRow(s.Slot, s.Pos+n))
		}
	}
	c.MoveRows(recent, x, p.from, p.to)
}

// draft drafts a token of each span of b, at the position of the span. embedding and hidden
// [M, hidden] are those of its input.
func (p *assistant) draft(c *ops.Context, b *batch.Batch, embedding, hidden kernels.Tensor,
	memory []cache.Layer) (out, next kernels.Tensor) {
	for len(p.rows) < hidden.Rows {
		p.rows = append(p.rows, int32(len(p.rows)))
	}
	n, rows := hidden.Cols, p.rows[:hidden.Rows]
	both := c.Temp(kernels.F32, hidden.Rows, 2*n)
	c.MoveRows(both.Columns(0, n), embedding, rows, rows)
	c.MoveRows(both.Columns(n, 2*n), hidden, rows, rows)
	h := c.Linear(both, p.pre)
	out = c.RMSNorm(h, p.layers[0].inputNorm(), p.eps)
	for i, layer := range p.layers {
		mark := c.Mark()
		delta := layer.forward(c, b, h, out, kernels.Tensor{}, memory[p.sources[i]], p.eps)
		norm := p.norm
		if i+1 < len(p.layers) {
			norm = p.layers[i+1].inputNorm()
		}
		c.AddRMSNormTo(out, h, delta, norm, p.eps)
		c.Release(mark)
	}
	return out, c.Linear(out, p.post)
}

// logits is Drafter.DraftLogits. With clusters, list is nil.
func (p *assistant) logits(c *ops.Context, out kernels.Tensor, rows []int32,
	list *batch.Shortlist) kernels.Tensor {
	if list != nil {
		return c.ShortLogits(out, rows, p.head, list.First, list.Last, list.Between)
	}
	if p.clusters != nil {
		p.clusters.scores = c.Logits(out, rows, p.clusters.centroids)
	}
	return c.Logits(out, rows, p.head)
}

// finish removes the logits of tokens that are not in the best clusters.
func (p *assistant) finish(logits kernels.Tensor) {
	if p.clusters == nil {
		return
	}
	for i := range logits.Rows {
		p.clusters.mask(logits.Row(i), p.clusters.scores.Row(i))
	}
}

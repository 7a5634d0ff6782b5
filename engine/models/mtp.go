package models

// Multi-token prediction: a block that drafts tokens. It has one layer with attention. Its input at
// position i is a projection of the embedding of token i and of the hidden state at i-1 after the
// final norm, and with the model's own head its output predicts token i+1. Before position 0 the
// hidden state is zero.
//
//	x = project([rmsnorm(embed(token i)), rmsnorm(hidden i-1)])
//	hidden = rmsnorm(layer(x))
//	logits = lm_head(hidden)
//
// A pass over the model adds the block's keys and values for all of its rows, from true hidden
// states. They depend on tokens up to their position alone, so they are kept and restored with the
// others. The block's own output stands for the hidden state when it drafts one token after
// another. What it then writes is overwritten when the model has computed these positions.
//
// The blocks of families differ in names, in the order of the projection's input and in the layer:
// blocks.go has a row for each.

import (
	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Drafter is a Model that can draft tokens.
type Drafter interface {
	Model
	// Draft runs the drafter over the tokens of b, which are one for each span, and adds them to
	// memory. hidden [M, hidden] has the hidden state before each token. Draft returns its output
	// for DraftLogits, and the hidden states [M, hidden] after the tokens for the next call. If
	// Spec().Block is set, each span is a block, a token and then masks, and there are no hidden
	// states. If Spec().InPlace is set, the position of a span is that before its first token.
	Draft(c *ops.Context, b *batch.Batch, hidden kernels.Tensor,
		memory []cache.Layer) (out, next kernels.Tensor)
	// DraftLogits returns the logits [len(rows), V] of some rows of out, which Draft has returned;
	// [len(rows), list.Size()] unless list, with First and Last of Spec().Shortlist, is nil.
	DraftLogits(c *ops.Context, out kernels.Tensor, rows []int32,
		list *batch.Shortlist) kernels.Tensor
	// FinishDraftLogits completes the last DraftLogits on the host, after the device has run it. It
	// is called if Spec().HostDrafts is set.
	FinishDraftLogits(logits kernels.Tensor)
}

// mtp is a loaded block. Its memory is the last entry of Spec.Layers.
type mtp struct {
	project                   *kernels.Weight // [hidden, 2*hidden]
	hiddenFirst               bool            // the hidden state is the first half of its input
	embeddingNorm, hiddenNorm kernels.Tensor  // [1, hidden]
	norm                      kernels.Tensor  // [1, hidden], or none
	layer                     *transformerLayer
	attention                 appender // of layer
}

// appender is attention that can add keys and values and compute nothing else: an nn.Attention or
// an nn.LatentAttention.
type appender interface {
	Append(c *ops.Context, b *batch.Batch, x kernels.Tensor, kv cache.Layer)
}

// LoadDrafter is Load, with the block that drafts tokens if the checkpoint has one that Headroom
// knows. Spec().Drafts then says so.
func LoadDrafter(w *checkpoint.Weights) (Model, error) {
	return load(w, true)
}

// addDrafter loads the block of a model that has one.
func (m *decoder) addDrafter() {
	block, spec := m.loadMTP()
	if block == nil {
		return
	}
	m.mtp = block
	spec.Drafts, spec.HiddenValues = true, m.embedTokens.K
	m.spec.Layers = append(m.spec.Layers, spec)
	m.spec.Drafts = true
	m.spec.Shortlist = shortlist(m.spec.VocabSize)
}

// The shortlist from which a block or an assistant drafts, beside tokens of the conversation. A
// block is one layer, so most of the time of a draft is the head's (engine/DECISIONS.md). The last
// rows of a vocabulary are tokens with a meaning of their own.
const (
	listedFirst, listedLast = 32768, 512
	leastListed             = 2 * (listedFirst + listedLast) // smaller vocabularies have none
)

// shortlist returns Spec.Shortlist for a vocabulary.
func shortlist(vocab int) *batch.Shortlist {
	if vocab < leastListed {
		return nil
	}
	return &batch.Shortlist{Vocab: vocab, First: listedFirst, Last: listedLast}
}

// append adds the block's keys and values for the rows of b, and leaves the last hidden state of
// each sequence in its slot. hidden [M, hidden] has the hidden states of these rows.
func (p *mtp) append(c *ops.Context, b *batch.Batch, tokens *kernels.Weight, hidden kernels.Tensor,
	memory cache.Layer, eps float32) {
	mark := c.Mark()
	before, h := c.Temp(kernels.F32, hidden.Rows, hidden.Cols), &b.Hidden
	c.MoveRows(before, hidden, h.Rows, h.RowsAfter)
	c.MoveRows(before, memory.Hidden, h.Slots, h.RowsAfterSlots)
	x := p.input(c, b, tokens, before, eps)
	p.attention.Append(c, b, c.RMSNorm(x, p.layer.norms.beforeMixer, eps), memory)
	c.MoveRows(memory.Hidden, hidden, h.LastRows, h.LastSlots)
	c.Release(mark)
}

// input returns the input [M, hidden] of the block's layer. before has the hidden state before each
// row.
func (p *mtp) input(c *ops.Context, b *batch.Batch, tokens *kernels.Weight, before kernels.Tensor,
	eps float32) kernels.Tensor {
	n := before.Cols
	both := c.Temp(kernels.F32, before.Rows, 2*n)
	embedding, state := both.Columns(0, n), both.Columns(n, 2*n)
	if p.hiddenFirst {
		embedding, state = state, embedding
	}
	c.RMSNormTo(embedding, c.Embed(b.Tokens, tokens), p.embeddingNorm, eps)
	c.RMSNormTo(state, before, p.hiddenNorm, eps)
	return c.Linear(both, p.project)
}

// Draft implements Drafter.
func (m *decoder) Draft(c *ops.Context, b *batch.Batch, hidden kernels.Tensor,
	memory []cache.Layer) (out, next kernels.Tensor) {
	switch {
	case m.dflash != nil:
		return m.dflash.draft(c, b, memory[len(m.layers):]), kernels.Tensor{}
	case m.assistant != nil:
		return m.assistant.draft(c, b, m.scaledEmbed(c, b.Tokens), hidden, memory)
	}
	p := m.mtp
	h := p.input(c, b, m.embedTokens, hidden, m.eps)
	x := c.RMSNorm(h, p.layer.norms.beforeMixer, m.eps)
	delta := p.layer.forward(c, b, h, x, kernels.Tensor{}, memory[len(m.layers)], m.eps)
	if p.norm.IsNone() {
		c.AddRMSNormTo(h, h, delta, p.norm, m.eps)
		return h, h
	}
	out = c.AddRMSNorm(h, delta, p.norm, m.eps)
	return out, out
}

// DraftLogits implements Drafter. Only an assistant has a head of its own.
func (m *decoder) DraftLogits(c *ops.Context, out kernels.Tensor, rows []int32,
	list *batch.Shortlist) kernels.Tensor {
	switch {
	case m.assistant != nil:
		return m.assistant.logits(c, out, rows, list)
	case list == nil:
		return m.Logits(c, out, rows)
	}
	return m.capped(c, c.ShortLogits(out, rows, m.lmHead, list.First, list.Last, list.Between))
}

// FinishDraftLogits implements Drafter.
func (m *decoder) FinishDraftLogits(logits kernels.Tensor) {
	if m.assistant != nil {
		m.assistant.finish(logits)
	}
}

package models

// Multi-token prediction: a block that drafts tokens. It has one layer with full attention. Its
// input at position i is a projection of the embedding of token i and of the hidden state at i-1
// after the final norm, and with the model's own head its output predicts token i+1. Before
// position 0 the hidden state is zero.
//
//	x = fc([rmsnorm(embed(token i)), rmsnorm(hidden i-1)])
//	hidden = rmsnorm(layer(x))
//	logits = lm_head(hidden)
//
// A pass over the model adds the block's keys and values for all of its rows, from true hidden
// states. They depend on tokens up to their position alone, so they are kept and restored with the
// others. The block's own output stands for the hidden state when it drafts one token after
// another. What it then writes is overwritten when the model has computed these positions.
//
// Sources: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 2.2; the block of Qwen3.5 in
// vLLM and mlx-vlm.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Drafter is a Model that can draft tokens.
type Drafter interface {
	Model
	// Draft runs the block that drafts over the tokens of b, which are one for each span, and adds
	// them to memory. hidden [M, hidden] has the hidden state before each token. Draft returns the
	// hidden states [M, hidden] after it, for Logits and for the next call. If Spec().Block is set,
	// each span is a block, a token and then masks, and hidden is none.
	Draft(c *ops.Context, b *batch.Batch, hidden kernels.Tensor,
		memory []cache.Layer) kernels.Tensor
}

// mtp is a loaded block. Its memory is the last entry of Spec.Layers.
type mtp struct {
	fc                              *kernels.Weight // [hidden, 2*hidden]
	embeddingNorm, hiddenNorm, norm kernels.Tensor  // [1, hidden]
	attention                       *nn.Attention   // of layer
	layer                           transformerLayer
}

// blocks maps values of model_type of folders that have such a block alone to the architectures
// that it is for.
var blocks = map[string][]string{
	"qwen3_5_mtp": {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_8",
		"qwen3_8_text", "qwen3_8_moe", "qwen3_next"},
}

// IsBlock reports whether a config is that of a folder with a block that drafts, and no model.
func IsBlock(c *checkpoint.Config) bool { return blocks[c.ModelType] != nil }

// blockShape are the keys of config.json that a block and its model have in common.
type blockShape struct {
	HiddenSize int `json:"hidden_size"`
	VocabSize  int `json:"vocab_size"`
}

// CheckBlock returns an error, which says why, unless the block can draft for the model.
func CheckBlock(model, block *checkpoint.Config) error {
	if !slices.Contains(blocks[block.ModelType], model.ModelType) {
		return fmt.Errorf("it drafts for models of type %s, this one is of type %s",
			strings.TrimSuffix(block.ModelType, "_mtp"), model.ModelType)
	}
	return checkDrafterShape(model, block)
}

// checkDrafterShape returns an error unless a drafter has the hidden_size and vocab_size of a
// model.
func checkDrafterShape(model, drafter *checkpoint.Config) error {
	var want, got blockShape
	if err := cmp.Or(model.Decode(&want), drafter.Decode(&got)); err != nil {
		return err
	}
	for _, one := range []struct {
		key       string
		got, want int
	}{{"hidden_size", got.HiddenSize, want.HiddenSize},
		{"vocab_size", got.VocabSize, want.VocabSize}} {
		if one.got != one.want {
			return fmt.Errorf("it drafts for a model with %s %d, this one has %d", one.key,
				one.got, one.want)
		}
	}
	return nil
}

// LoadDrafter is Load, with the block that drafts tokens if the checkpoint has one that Headroom
// knows. Spec().Drafts then says so.
func LoadDrafter(w *checkpoint.Weights) (Model, error) {
	return load(w, true)
}

// addDrafter loads the block of a model that has one.
func (m *decoder) addDrafter() {
	if m.loadMTP == nil {
		return
	}
	block, spec := m.loadMTP()
	if block == nil {
		return
	}
	m.mtp = block
	spec.Drafts, spec.HiddenValues = true, m.embedTokens.K
	m.spec.Layers = append(m.spec.Layers, spec)
	m.spec.Drafts = true
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
	c.RMSNormTo(both.Columns(0, n), c.Embed(b.Tokens, tokens), p.embeddingNorm, eps)
	c.RMSNormTo(both.Columns(n, 2*n), before, p.hiddenNorm, eps)
	return c.Linear(both, p.fc)
}

// Draft implements Drafter.
func (m *decoder) Draft(c *ops.Context, b *batch.Batch, hidden kernels.Tensor,
	memory []cache.Layer) kernels.Tensor {
	if m.dflash != nil {
		return m.dflash.draft(c, b, memory[len(m.layers):])
	}
	p := m.mtp
	h := p.input(c, b, m.embedTokens, hidden, m.eps)
	x := c.RMSNorm(h, p.layer.norms.beforeMixer, m.eps)
	delta := p.layer.forward(c, b, h, x, kernels.Tensor{}, memory[len(m.layers)], m.eps)
	return c.AddRMSNorm(h, delta, p.norm, m.eps)
}

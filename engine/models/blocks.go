package models

// The blocks that draft tokens (mtp.go), by family: where their weights are, and how they are
// wired. A family is a row of blockForms. Its block's layer is what its loader makes of layer
// number num_hidden_layers.
//
// Blocks may come with an embedding and a head of their own (embed_tokens and shared_head.head).
// These are copies of the model's, which are used instead, as in SGLang. A model may have blocks
// for several depths. Then the first drafts at every depth.
//
// Sources: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 2.2, where the projection has
// the hidden state first, and the checkpoints have it last; vLLM, models/deepseek_mtp.py,
// glm4_moe_mtp.py, mimo_mtp.py and ernie_mtp.py; SGLang, models/deepseek_nextn.py,
// glm4_moe_nextn.py, glm4_moe_lite_nextn.py, mimo_mtp.py, ernie4_eagle.py and nemotron_h_mtp.py;
// mlx-vlm, speculative/drafters. vLLM and SGLang differ in what stands for the hidden state at the
// second draft: the output before the block's norm, or after it. It is the latter here, since at
// the first draft it is the model's after its norm.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/kernels"
)

// blockForm describes the block of a family. Names are relative to one of the prefixes.
type blockForm struct {
	prefixes                  []string // of its tensors; %d is num_hidden_layers
	project                   string
	embeddingNorm, hiddenNorm string
	norm                      string // before the head; "": none
	layer                     string // the prefix of its layer's tensors
	hiddenFirst               bool   // in the input of project
	// centred says that norm weights may be stored zero-centred, whatever those of the model are.
	centred bool
	// onlyWithout is a tensor of those blocks that have several layers, which are not loaded.
	onlyWithout string
}

var (
	qwenBlock = blockForm{
		prefixes: []string{"language_model.mtp.", "model.mtp.", "mtp.", ""},
		project:  "fc", embeddingNorm: "pre_fc_norm_embedding", hiddenNorm: "pre_fc_norm_hidden",
		norm: "norm", layer: "layers.0.", centred: true,
		onlyWithout: "layers.1.input_layernorm.weight",
	}
	// nextBlock is a layer after the model's last one.
	nextBlock = blockForm{
		prefixes: []string{"language_model.model.layers.%d.", "model.language_model.layers.%d.",
			"model.layers.%d.", "layers.%d."},
		project: "eh_proj", embeddingNorm: "enorm", hiddenNorm: "hnorm", norm: "shared_head.norm",
	}
	// nextFolder is that in a folder of its own, as mlx-vlm writes it.
	nextFolder = blockForm{
		prefixes: []string{"model."},
		project:  "eh_proj", embeddingNorm: "enorm", hiddenNorm: "hnorm", norm: "shared_head_norm",
		layer: "mtp_block.",
	}
	mimoBlock = blockForm{
		prefixes: []string{"model.mtp_layers.0."},
		project:  "input_proj", embeddingNorm: "token_layernorm", hiddenNorm: "hidden_layernorm",
		norm: "final_layernorm", hiddenFirst: true,
	}
	// Its head has no norm of its own before it.
	ernieBlock = blockForm{
		prefixes: []string{"model."},
		project:  "mtp_linear_proj.0", embeddingNorm: "mtp_emb_norm.0",
		hiddenNorm: "mtp_hidden_norm.0", layer: "mtp_block.0.",
	}
	// The two parts of its layer have the numbers of two layers.
	nemotronBlock = blockForm{
		prefixes: []string{"language_model.mtp.", "mtp.", ""},
		project:  "layers.0.eh_proj", embeddingNorm: "layers.0.enorm",
		hiddenNorm: "layers.0.hnorm", norm: "layers.1.final_layernorm",
		onlyWithout: "layers.2.norm.weight",
	}
)

// blockForms maps architectures to the forms that their blocks may have. That of a random model is
// the first.
var blockForms = map[string][]blockForm{
	"deepseek_v3":      {nextBlock},
	"ernie4_5_moe":     {ernieBlock},
	"glm4_moe":         {nextBlock},
	"glm4_moe_lite":    {nextBlock, nextFolder},
	"mimo":             {mimoBlock},
	"nemotron_h":       {nemotronBlock},
	"qwen3_5":          {qwenBlock},
	"qwen3_5_moe":      {qwenBlock},
	"qwen3_5_moe_text": {qwenBlock},
	"qwen3_5_text":     {qwenBlock},
	"qwen3_8":          {qwenBlock},
	"qwen3_8_moe":      {qwenBlock},
	"qwen3_8_text":     {qwenBlock},
	"qwen3_next":       {qwenBlock},
}

// blocks maps values of model_type of folders that have such a block alone to the architectures
// that it is for.
var blocks = map[string][]string{
	"glm4_moe_lite_mtp": {"glm4_moe_lite"},
	"nemotron_h_mtp":    {"nemotron_h"},
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

// VocabSize returns the vocab_size of a config, or math.MaxInt if it states none.
func VocabSize(c *checkpoint.Config) int {
	var shape blockShape
	if c.Decode(&shape) != nil || shape.VocabSize <= 0 {
		return math.MaxInt
	}
	return shape.VocabSize
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
	return compareShapes(got, want)
}

// compareShapes returns an error, which says why, unless a drafter is for a model of this shape.
func compareShapes(got, want blockShape) error {
	for _, one := range []struct {
		key       string
		got, want int
	}{{"hidden_size", got.HiddenSize, want.HiddenSize},
		{"vocab_size", got.VocabSize, want.VocabSize}} {
		switch {
		case one.got == 0:
			return fmt.Errorf("its config.json does not state %s, this model has %d", one.key,
				one.want)
		case one.got != one.want:
			return fmt.Errorf("it drafts for a model with %s %d, this one has %d", one.key,
				one.got, one.want)
		}
	}
	return nil
}

// blockCount are the keys of config.json that say how many blocks, or layers of a block, there are.
type blockCount struct {
	NumHiddenLayers       int `json:"num_hidden_layers"`
	MTPNumHiddenLayers    int `json:"mtp_num_hidden_layers"`
	NumNextNPredictLayers int `json:"num_nextn_predict_layers"`
}

// findBlock returns the form and the scope of the block of a model; ok is false if there is none
// that can draft. It opens the file of a block beside the model. Conversions that leave the block
// out may say that there is none, and it is then added again, so tensors count and not config.json.
func findBlock(w *checkpoint.Weights) (f blockForm, s checkpoint.Scope, ok bool) {
	forms := blockForms[w.Config.ModelType]
	var n blockCount
	if len(forms) == 0 || w.Config.Decode(&n) != nil {
		return f, s, false
	}
	var names []checkpoint.BlockNames
	for _, f := range forms {
		one := checkpoint.BlockNames{Mark: f.project + ".weight", Second: f.hiddenNorm + ".weight"}
		for _, prefix := range f.prefixes {
			one.Prefixes = append(one.Prefixes,
				strings.ReplaceAll(prefix, "%d", fmt.Sprint(n.NumHiddenLayers)))
		}
		names = append(names, one)
	}
	s, which := w.FindBlock(names...)
	if which < 0 {
		return f, s, false
	}
	f = forms[which]
	stated := max(n.MTPNumHiddenLayers, n.NumNextNPredictLayers)
	switch {
	case s.IsRandom(): // it has every tensor
		return f, s, stated == 1 || stated > 1 && f.onlyWithout == ""
	case f.onlyWithout == "" || n.MTPNumHiddenLayers == 1:
		return f, s, true
	}
	return f, s, n.MTPNumHiddenLayers == 0 && !s.Has(f.onlyWithout)
}

// OpenBlock opens the file of a block beside the model, if there is one, so that it is read with
// the others.
func OpenBlock(w *checkpoint.Weights) { findBlock(w) }

// blockLoader returns the function that loads the block which drafts tokens. Its result is nil if
// there is none.
func (from decoderWeights) blockLoader(w *checkpoint.Weights,
	d *decoderConfig) func() (*mtp, cache.LayerSpec) {
	return func() (*mtp, cache.LayerSpec) {
		f, s, ok := findBlock(w)
		if !ok {
			return nil, cache.LayerSpec{}
		}
		n, offset := d.HiddenSize, from.normOffset
		p := &mtp{project: s.Linear(f.project, n, 2*n), hiddenFirst: f.hiddenFirst,
			hiddenNorm: s.Vector(f.hiddenNorm+".weight", n, 0)}
		if f.centred {
			offset = centreNorm(p.hiddenNorm, offset)
		}
		p.embeddingNorm = s.Vector(f.embeddingNorm+".weight", n, offset)
		if f.norm != "" {
			p.norm = s.Vector(f.norm+".weight", n, offset)
		}
		load := from.blockLayer
		if load == nil {
			load = func(s checkpoint.Scope, _ float32) (decoderLayer, cache.LayerSpec) {
				return from.layer(d.NumHiddenLayers, s)
			}
		}
		layer, spec := load(s.Prefixed(f.layer), offset)
		p.layer = layer.(*transformerLayer)
		p.attention = p.layer.mixer.(appender)
		return p, spec
	}
}

// centreNorm adds 1 to a norm weight that is stored zero-centred, and returns what it has added.
// The blocks that draft are often added to a conversion later, so the weight itself tells which of
// the two it is, by its mean. normOffset is that of the model, for a weight without values.
func centreNorm(weight kernels.Tensor, normOffset float32) float32 {
	if weight.Buffer == nil || weight.Buffer.Bytes == nil {
		return normOffset
	}
	values, sum := weight.Float32s(), float32(0)
	for _, v := range values {
		sum += v
	}
	if sum >= 0.5*float32(len(values)) {
		return 0
	}
	for i := range values {
		values[i]++
	}
	return 1
}

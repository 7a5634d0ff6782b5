package models

// The number of layers in config.json and in the files. A config.json with too few would leave the
// last layers out without a word, and answers would be wrong. But a block that drafts may have the
// names of a layer after the last (blocks.go), whether Headroom can run it or not. It has modules
// that no layer has, such as eh_proj and enorm.

import (
	"fmt"
	"strconv"
	"strings"

	"headroom/engine/checkpoint"
)

// layerNames tells the tensors of a model's layers: prefix, the number of a layer, a dot, the rest.
type layerNames struct {
	prefix string
	count  int // layers according to config.json
}

// layered is a Model whose layers have names in the files: every architecture here.
type layered interface {
	Model
	// layerNames returns the names of its layers in w, from which it was loaded.
	layerNames(w *checkpoint.Weights) layerNames
}

// find returns the number of the layer that a tensor is of, and the module in it. ok is false if it
// is of no layer.
func (l layerNames) find(tensor string) (number int, module string, ok bool) {
	rest, ok := strings.CutPrefix(tensor, l.prefix)
	if !ok {
		return 0, "", false
	}
	text, rest, _ := strings.Cut(rest, ".")
	module, _, _ = strings.Cut(rest, ".")
	number, err := strconv.Atoi(text)
	return number, module, err == nil && number >= 0
}

// kindsOfLayers are modules that only some layers of a model have, so that a layer after the last
// may be the only one that has them.
var kindsOfLayers = []string{"self_attn", "linear_attn", "mamba", "conv", "mlp", "feed_forward",
	"block_sparse_moe", "shared_mlp", "attn_norm"}

// checkCount returns a Problem if the files have layers after those of config.json. A layer with a
// module that none before it has is a block that drafts, and does not count: one such module is
// enough, because files without the others exist.
func (l layerNames) checkCount(w *checkpoint.Weights) error {
	names := w.Names()
	after := map[int]bool{} // layers after the last; true: of a block that drafts
	for _, name := range names {
		if i, _, ok := l.find(name); ok && i >= l.count && !isHarmless(name) {
			after[i] = false
		}
	}
	if len(after) == 0 {
		return nil
	}
	known := map[string]bool{}
	for _, module := range kindsOfLayers {
		known[module] = true
	}
	for _, name := range names {
		if i, module, ok := l.find(name); ok && i < l.count {
			known[module] = true
		}
	}
	for _, name := range names {
		if i, module, ok := l.find(name); ok && i >= l.count && !known[module] {
			after[i] = true
		}
	}
	most := l.count
	for i, drafts := range after {
		if !drafts {
			most = max(most, i+1)
		}
	}
	if most == l.count {
		return nil
	}
	const key = "num_hidden_layers"
	stated := fmt.Sprintf("%s is %d", key, l.count)
	if !w.Config.Has(key) { // those of Nemotron-H have a letter for each layer
		stated = fmt.Sprintf("config.json describes %d layers", l.count)
	}
	w.Failf("%s, but the weights have %d layers", stated, most)
	return w.Err()
}

package models

// Tensors of a checkpoint that no layer reads. An additional bias or norm in a layer means that the
// reference computes something else, and that answers would be wrong without a sign.

import (
	"fmt"
	"slices"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
)

// harmless has suffixes of tensors in layers that do not change what a layer computes: constants
// that old writers stored, and scales for caches and activations in 8 bits, which Headroom does
// not use. An architecture that ignores other tensors of its layers says so with Scope.Ignore.
var harmless = []string{
	"rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached",
	".k_scale", ".v_scale", ".q_scale", ".kv_scale",
	".input_scale", ".output_scale", ".activation_scale", ".input_global_scale",
	".input_scale_ub",
}

// embeddingModules are modules between the embedding and the first layer, which an architecture
// without them cannot leave out.
var embeddingModules = []string{"embed_layernorm.", "embed_positions.", "embed_norm."}

// maxZeroBytes bounds how much of the biases of a model is compared with 0.
const maxZeroBytes = 64 << 20

// checkUnread returns a Problem if the language model has tensors that the architecture does not
// know: in its layers, between them and the embedding, in a module of which it has read another
// tensor, or a bias of the head. Everything else is ignored: other parts of a multimodal model,
// blocks that draft tokens, and the head of a model whose head is tied.
func checkUnread(w *checkpoint.Weights, own layerNames) error {
	root := textWeights(w).model.Path()
	first, more, budget := "", -1, maxZeroBytes
	for _, name := range w.Unread() {
		if !isPart(w, name, root, own) {
			continue
		}
		if strings.HasSuffix(name, ".bias") { // some writers give every projection one
			bytes, zero := w.IsZero(name, budget)
			if budget -= bytes; zero {
				continue
			}
		}
		if more++; first == "" {
			first = modelfile.Excerpt(name)
		}
	}
	switch {
	case first == "":
		return nil
	case more > 0:
		first = fmt.Sprintf("%s and %d more", first, more)
	}
	return unsupported(w, "the architecture has no tensor %s", first)
}

// isPart reports whether the tensor called name, which has not been read, changes what the language
// model computes. root is the prefix of its tensors.
func isPart(w *checkpoint.Weights, name, root string, own layerNames) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	module := name[:dot]
	known := w.HasRead(module + ".weight")
	if prefix, ok := strings.CutSuffix(name, "lm_head.bias"); ok { // also beside a tied head
		known = known || strings.HasPrefix(root, prefix)
	}
	for _, m := range embeddingModules {
		known = known || strings.HasPrefix(name, root+m)
	}
	if i, _, ok := own.find(name); ok {
		known = known || i < own.count
	}
	if !known {
		return false
	}
	return !isHarmless(name)
}

// isHarmless reports whether a tensor does not change what a layer computes.
func isHarmless(name string) bool {
	return slices.ContainsFunc(harmless,
		func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

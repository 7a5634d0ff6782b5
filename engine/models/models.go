// Package models implements the architectures that Headroom runs, one file each, and their
// registry. Config fields and weights have the same names as in Hugging Face checkpoints.
// decoder.go has the code that architectures share. A new architecture needs one file and one
// registry entry.
package models

import (
	"maps"
	"slices"
	"strings"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/kernels"
)

// Model is a loaded architecture.
type Model interface {
	// Spec describes the model to the runner. The caller must not change its slices.
	Spec() Spec
	// Forward runs the tokens of b through the model. It returns the next-token logits
	// [len(b.Logits), V] of the rows that b.Logits lists, in the arena of c, and updates the
	// memory of the layers, one entry for each of Spec().Layers.
	Forward(c *ops.Context, b *batch.Batch, memory []cache.Layer) kernels.Tensor
}

// Spec describes a model to the runner and the memory plan.
type Spec struct {
	VocabSize     int
	ContextTokens int // maximum sequence length that the model was trained for
	Layers        []cache.LayerSpec
}

// registry maps config.json's model_type to the function that loads it. A loader need not check
// w.Err: Load does.
var registry = map[string]func(w *checkpoint.Weights) (Model, error){
	"gemma3":           loadGemma3,
	"gemma3_text":      loadGemma3,
	"qwen3":            loadQwen3,
	"qwen3_5":          loadQwen35,
	"qwen3_5_text":     loadQwen35,
	"qwen3_5_moe":      loadQwen35,
	"qwen3_5_moe_text": loadQwen35,
}

// Load builds the model that w's config describes. The model's weights are valid until w is closed.
func Load(w *checkpoint.Weights) (Model, error) {
	load, ok := registry[w.Config.ModelType]
	if !ok {
		return nil, problem.New(problem.UnknownArchitecture,
			"Headroom cannot run models of the kind \""+w.Config.ModelType+"\" yet",
			"it runs "+strings.Join(Architectures(), ", "), "Pick a model of one of these kinds.")
	}
	m, err := load(w)
	if err == nil {
		err = w.Err()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Architectures returns the model types that Load knows, sorted.
func Architectures() []string { return slices.Sorted(maps.Keys(registry)) }

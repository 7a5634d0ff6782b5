// Package models holds the architectures, one file each, written in layers and in the checkpoint's
// own names. The registry below is the list of what Headroom runs; a new architecture is a file and
// a row.
package models

import (
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
	// Spec describes the model to the runner.
	Spec() Spec
	// Forward computes the next-token logits [len(b.Logits), V] of the rows that b.Logits names,
	// and leaves what it will remember in layers, which has one entry per Spec().Layers.
	Forward(c *ops.Context, b *batch.Batch, layers []cache.Layer) kernels.Tensor
}

// Spec is what the runner and the ledger need to know of a model.
type Spec struct {
	VocabSize     int
	ContextTokens int // longest sequence it was trained for
	Layers        []cache.LayerSpec
}

// registry maps config.json's model_type to the function that loads it.
var registry = map[string]func(*checkpoint.Weights) (Model, error){
	"gemma3":           loadGemma3,
	"gemma3_text":      loadGemma3,
	"qwen3":            loadQwen3,
	"qwen3_5":          loadQwen35,
	"qwen3_5_text":     loadQwen35,
	"qwen3_5_moe":      loadQwen35,
	"qwen3_5_moe_text": loadQwen35,
}

// Load builds the model that w's config describes.
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

// Architectures lists the model types that Load knows, sorted.
func Architectures() []string {
	var names []string
	for name := range registry {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

package models

import (
	"headroom/engine/checkpoint"
	"headroom/engine/nn"
	"headroom/kernels"
)

// KindsOfLayers is kindsOfLayers.
var KindsOfLayers = kindsOfLayers

// Register adds an entry to the registry and returns a function that removes it.
func Register(modelType string, load func(*checkpoint.Weights) (Model, error)) (remove func()) {
	registry[modelType] = load
	return func() { delete(registry, modelType) }
}

// RoundInvFreq rounds the rotary frequencies of m to bfloat16, as in the reference outputs of some
// tiny models: transformers created them in bfloat16, buffers included, and then converted them to
// float32. With float32 frequencies, the logits of Qwen3 differ from the reference by up to 0.04,
// and the difference grows with the position. With rounded frequencies they differ by 8e-6. Real
// models use float32 frequencies.
func RoundInvFreq(m Model) {
	rounded := map[*kernels.Buffer]bool{} // layers share their frequencies
	for _, layer := range m.(*decoder).layers {
		var attention *nn.Attention
		switch l := layer.(type) {
		case *transformerLayer:
			attention, _ = l.mixer.(*nn.Attention)
		case *gemma4Layer:
			attention = l.attention
		}
		if attention == nil {
			continue
		}
		freqs := attention.Rope.InvFreq
		if freqs.IsNone() || rounded[freqs.Buffer] {
			continue
		}
		rounded[freqs.Buffer] = true
		for i, x := range freqs.Float32s() {
			freqs.Float32s()[i] = bfloat16(x)
		}
	}
}

// ShortlistOf returns Spec.Shortlist for a vocabulary.
var ShortlistOf = shortlist

package models

import "headroom/kernels"

// RoundInvFreq rounds Qwen3's and Gemma 3's rotary frequencies to bfloat16. Their reference outputs
// were computed that way: transformers had made the tiny models in bfloat16, buffers included,
// before it widened them to float32 (with float32 frequencies the logits of Qwen3 differ by up to
// 0.04, growing with the position; with rounded ones by 8e-6). Real checkpoints keep float32
// frequencies.
func RoundInvFreq(m Model) {
	var freqs []kernels.Tensor
	switch m := m.(type) {
	case *qwen3:
		freqs = append(freqs, m.layers[0].selfAttn.InvFreq) // one tensor, shared by all layers
	case *gemma3:
		for i, kind := range m.config.LayerTypes {
			if i == 0 || kind == fullAttention {
				// one of each kind: the tiny model ends with its only full one
				freqs = append(freqs, m.layers[i].selfAttn.InvFreq)
			}
		}
	}
	for _, f := range freqs {
		for i, x := range f.Float32s() {
			f.Float32s()[i] = bfloat16(x)
		}
	}
}

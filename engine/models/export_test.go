package models

import "math"

// RoundInvFreq rounds Qwen3's rotary frequencies to bfloat16. Its reference outputs were computed that way: transformers had made
// the tiny model in bfloat16, buffers included, before it widened it to float32 (with float32 frequencies the logits differ by up
// to 0.04, growing with the position; with rounded ones by 8e-6). Real checkpoints keep float32 frequencies.
func RoundInvFreq(m Model) {
	if q, ok := m.(*qwen3); ok {
		f := q.layers[0].selfAttn.InvFreq.Float32s() // one tensor, shared by all layers
		for i, x := range f {
			bits := math.Float32bits(x)
			f[i] = math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
		}
	}
}

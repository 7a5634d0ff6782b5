package models

// Qwen3-Next has the layers of Qwen3.5 as a mixture of experts. Only the input projections of
// GatedDeltaNet are stored differently: in_proj_qkvz and in_proj_ba have the rows of all four
// outputs interleaved by key head.
//
// Sources: Hugging Face transformers, models/qwen3_next; mlx-lm, models/qwen3_next.py. Checkpoints:
// Qwen3-Next-80B-A3B and Qwen3-Coder-Next, MLX conversions included. As in Qwen3.5, only Hugging
// Face originals store norm weights zero-centred.

import (
	"headroom/engine/checkpoint"
	"headroom/kernels"
)

const qwen3NextInterval = 4 // the default of full_attention_interval

func loadQwen3Next(w *checkpoint.Weights) (Model, error) {
	c := newQwen35Config()
	c.FullAttentionInterval, c.interleaved = qwen3NextInterval, true
	return c.load(w)
}

// splitProjections loads in_proj_qkvz and in_proj_ba, and copies their rows into the projections of
// Qwen3.5. The rows of a key head are, in in_proj_qkvz: q [Dk], k [Dk], v [Hv/Hk * Dv] and
// z [Hv/Hk * Dv]; in in_proj_ba: b [Hv/Hk] and a [Hv/Hk].
func (c *qwen35Config) splitProjections(s checkpoint.Scope) (qkv, z, beta, a *kernels.Weight) {
	d := c.deltaShape()
	values := d.Hv / d.Hk // value heads of a key head
	head, heads := 2*d.Dk+2*values*d.Dv, 2*values
	qkvz := s.View("in_proj_qkvz", d.Hk*head, c.HiddenSize)
	ba := s.View("in_proj_ba", d.Hk*heads, c.HiddenSize)
	// part maps the rows of one output to rows of in_proj_qkvz or in_proj_ba. A key head has count
	// rows, and those of the output are [from, from+rows).
	part := func(count, from, rows int) func(int) int {
		return func(i int) int { return i/rows*count + from + i%rows }
	}
	q, k := part(head, 0, d.Dk), part(head, d.Dk, d.Dk)
	v := part(head, 2*d.Dk, values*d.Dv)
	qkv = s.Pick(qkvz, c.convChannels(), func(i int) int {
		switch keys := d.Hk * d.Dk; {
		case i < keys:
			return q(i)
		case i < 2*keys:
			return k(i - keys)
		default:
			return v(i - 2*keys)
		}
	})
	z = s.Pick(qkvz, d.Hv*d.Dv, part(head, 2*d.Dk+values*d.Dv, values*d.Dv))
	return qkv, z, s.Pick(ba, d.Hv, part(heads, 0, values)),
		s.Pick(ba, d.Hv, part(heads, values, values))
}

//go:build cgo

package rope

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

func (o *NormRope) native(_ cpu.ISA, s *kernels.Span, from, to int, scratch []float32) {
	o.rows(s, from, to, scratch)
}

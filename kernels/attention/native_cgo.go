//go:build cgo

package attention

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

func (o *Append) native(_ cpu.ISA, s *kernels.Span, from, to int) { o.rows(s, from, to) }
func (o *Attention) native(_ cpu.ISA, u unit, scratch []float32)  { o.attend(u, scratch) }
func (o *Attention) nativeMerge(_ cpu.ISA, i int, scratch []float32) {
	o.merge(i, scratch)
}

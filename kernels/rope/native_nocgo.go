//go:build !cgo

package rope

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only its Generic set, so this is never called.

func (o *NormRope) native(cpu.ISA, *kernels.Span, int, int, []float32) {
	panic("rope: native kernels in a build without cgo")
}

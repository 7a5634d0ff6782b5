//go:build !cgo

package rope

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only the instruction set Generic, so this function is never called.

func (o *NormRope) native(cpu.ISA, *kernels.Span, int, int, []float32) {
	panic("rope: native kernels in a build without cgo")
}

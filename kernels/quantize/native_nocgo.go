//go:build !cgo

package quantize

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only the instruction set Generic, so this is never called.
func (f Format) native(cpu.ISA, Packed, []byte, kernels.DType, int) {
	panic("quantize: native kernels in a build without cgo")
}

func nativeOuter(cpu.ISA, matrix, matrix, matrix, int, int, int, float64) {
	panic("quantize: native kernels in a build without cgo")
}

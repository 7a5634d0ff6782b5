//go:build !cgo

package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only the instruction set Generic, so this function is never called.

func (f function) native(cpu.ISA, kernels.Tensor, kernels.Tensor, kernels.Tensor, int, int) {
	panic("activation: native kernels in a build without cgo")
}

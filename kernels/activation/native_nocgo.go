//go:build !cgo

package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only the instruction set Generic, so these functions are never called.

func (f function) native(cpu.ISA, kernels.Tensor, kernels.Tensor, kernels.Tensor, int, int) {
	panic("activation: native kernels in a build without cgo")
}

func (o *SoftCap) native(cpu.ISA, int, int) {
	panic("activation: native kernels in a build without cgo")
}

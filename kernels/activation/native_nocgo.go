//go:build !cgo

package activation

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only its Generic set, so this is never called.

func (f function) native(cpu.ISA, kernels.Tensor, kernels.Tensor, kernels.Tensor, int, int) {
	panic("activation: native kernels in a build without cgo")
}

//go:build !cgo

package norm

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, so these functions are never called.

func (o *RMSNorm) native(cpu.ISA, int, int) { panic("norm: native kernels in a build without cgo") }

func (o *GatedRMSNorm) native(cpu.ISA, int, int) {
	panic("norm: native kernels in a build without cgo")
}

func (o *LayerNorm) native(cpu.ISA, int, int) {
	panic("norm: native kernels in a build without cgo")
}

//go:build !cgo

package ceiling

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, so these functions are never called.

func (o *Read) native(cpu.ISA, int, int) {
	panic("ceiling: native kernels in a build without cgo")
}

func (l *loop) native(cpu.ISA, int) {
	panic("ceiling: native kernels in a build without cgo")
}

//go:build !cgo

package bandwidth

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, so this function is never called.
func (o *Read) native(cpu.ISA, int,
	int) {
	panic("bandwidth: native kernels in a build without cgo")
}

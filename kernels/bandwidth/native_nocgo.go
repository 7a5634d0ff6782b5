//go:build !cgo

package bandwidth

import "headroom/kernels/cpu"

// Without cgo the CPU has only its Generic set, so this is never called.
func (o *Read) native(cpu.ISA, int,
	int) {
	panic("bandwidth: native kernels in a build without cgo")
}

//go:build !cgo

package embedding

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, so these functions are never called.

func (o *Lookup) native(cpu.ISA, int, int) {
	panic("embedding: native kernels in a build without cgo")
}

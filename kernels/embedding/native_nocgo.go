//go:build !cgo

package embedding

import "headroom/kernels/cpu"

// Without cgo the CPU has only its Generic set, so these are never called.

func (o *Lookup) native(cpu.ISA, int, int) {
	panic("embedding: native kernels in a build without cgo")
}

//go:build !cgo

package sampling

import "headroom/kernels/cpu"

// Without cgo the CPU has only its Generic set, so this is never called.

func nativeArgmaxBlock(cpu.ISA, []float32) int {
	panic("sampling: native kernels in a build without cgo")
}

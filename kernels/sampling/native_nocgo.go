//go:build !cgo

package sampling

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, so this function is never called.

func nativeArgmaxBlock(cpu.ISA, []float32) int {
	panic("sampling: native kernels in a build without cgo")
}

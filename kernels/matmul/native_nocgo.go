//go:build !cgo

package matmul

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, which has no policy and for which the
// methods below are never called.

var policies [cpu.NEON + 1]policy

func (in *input) nativeRound(cpu.ISA, int, int) {
	panic("matmul: native kernels in a build without cgo")
}

func (in *input) nativePack(int, int) {
	panic("matmul: native kernels in a build without cgo")
}

func (in *input) nativeMultiply(*cpu.Context, int, *Part, int, int, int, rows, bool) {
	panic("matmul: native kernels in a build without cgo")
}

const hasSplit = false

func (in *input) nativeSplitRows(int, int) {
	panic("matmul: native kernels in a build without cgo")
}

func (in *input) nativeSplit(*cpu.Context, int, *Part, int, int) {
	panic("matmul: native kernels in a build without cgo")
}

func (o *GateUp) nativeGate(cpu.ISA, int, int) {
	panic("matmul: native kernels in a build without cgo")
}

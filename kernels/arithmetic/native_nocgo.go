//go:build !cgo

package arithmetic

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, so this function is never called.
func (l *loop) native(cpu.ISA, int) { panic("arithmetic: native loops in a build without cgo") }

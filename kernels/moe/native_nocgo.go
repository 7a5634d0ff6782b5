//go:build !cgo

package moe

import "headroom/kernels/cpu"

// Without cgo the CPU has only the instruction set Generic, so these functions are never called.

const noNative = "moe: native kernels in a build without cgo"

func (o *Route) native(cpu.ISA, int, int)         { panic(noNative) }
func (o *ClampedSwiGLU) native(cpu.ISA, int, int) { panic(noNative) }
func (o *Combine) native(cpu.ISA, int, int)       { panic(noNative) }

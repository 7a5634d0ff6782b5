//go:build !cgo

package moe

import "headroom/kernels/cpu"

// Without cgo the CPU has only its Generic set, so these are never called.

func (o *Route) native(cpu.ISA, int, int)   { panic("moe: native kernels in a build without cgo") }
func (o *Combine) native(cpu.ISA, int, int) { panic("moe: native kernels in a build without cgo") }

//go:build !cgo

package attention

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only the instruction set Generic, so these functions are never called.

const noCgo = "attention: native kernels in a build without cgo"

func (o *Append) native(cpu.ISA, *kernels.Span, int, int, int, int) { panic(noCgo) }
func (o *Attention) native(cpu.ISA, unit, []float32)                { panic(noCgo) }
func (o *Attention) nativeMerge(cpu.ISA, int, []float32)            { panic(noCgo) }

func (o *Select) native(cpu.ISA, unit, []float32, []float32, []float32) { panic(noCgo) }

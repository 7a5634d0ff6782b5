//go:build !cgo

package recurrent

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Without cgo the CPU has only the instruction set Generic, so these functions are never called.

const noNative = "recurrent: native kernels in a build without cgo"

func (o *Conv) native(cpu.ISA, kernels.Span, int, int) { panic(noNative) }

func (o *Conv) nativeUpdate(cpu.ISA, kernels.Span, int, int) { panic(noNative) }

func (o *GatedDelta) nativeUnits(*cpu.Context, int, kernels.Span, int, int) { panic(noNative) }

func (o *SSM) nativeHeads(cpu.ISA, kernels.Span, int, int) { panic(noNative) }

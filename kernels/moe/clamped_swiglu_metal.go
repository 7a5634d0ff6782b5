package moe

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed clamped_swiglu.metal
var clampedSwiGLUText string

var (
	clampedSwiGLUSource = &gpu.Source{Name: "moe/clamped_swiglu.metal", Text: clampedSwiGLUText}
	clampedSwiGLU1      = gpu.NewKernel[clampedSwiGLUParams](clampedSwiGLUSource,
		"clamped_swiglu_1")
	clampedSwiGLU4 = gpu.NewKernel[clampedSwiGLUParams](clampedSwiGLUSource, "clamped_swiglu_4")
)

// clampedSwiGLUParams mirrors ClampedSwiGLUParams in clamped_swiglu.metal.
type clampedSwiGLUParams struct {
	Cols, GateStride, UpStride, OutStride, Experts uint32
	Limit, Alpha                                   float32
}

const clampedSwiGLUThreads = 256

// Metal implements gpu.Op.
func (o *ClampedSwiGLU) Metal(c *gpu.Context) {
	k, width := clampedSwiGLU1, 1
	if gpu.Aligned16(o.Gate, o.Up, o.GateBias, o.UpBias, o.Out) {
		k, width = clampedSwiGLU4, 4
	}
	p := clampedSwiGLUParams{Cols: uint32(o.Out.Cols / width),
		GateStride: uint32(o.Gate.Stride / width), UpStride: uint32(o.Up.Stride / width),
		OutStride: uint32(o.Out.Stride / width), Experts: uint32(o.GateBias.Rows), Limit: o.Limit,
		Alpha: o.Alpha}
	k.Dispatch(c, p,
		gpu.RowsByColumns(o.Out.Rows, o.Out.Cols/width, clampedSwiGLUThreads), gpu.Read(o.Gate),
		gpu.Read(o.Up), gpu.Read(o.IDs), gpu.Read(o.GateBias), gpu.Read(o.UpBias),
		gpu.Write(o.Out))
}

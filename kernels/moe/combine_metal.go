package moe

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed combine.metal
var combineText string

var (
	combineSource = &gpu.Source{Name: "moe/combine.metal", Text: combineText}
	combine1      = gpu.NewKernel[combineParams](combineSource, "combine_1")
	combine4      = gpu.NewKernel[combineParams](combineSource, "combine_4")
)

// combineParams mirrors CombineParams in combine.metal.
type combineParams struct {
	Cols, Chosen, ExpertsStride, SharedStride, GateStride, OutStride uint32
	HasShared, HasGate, Biases                                       uint32
}

const combineThreads = 256

// Every thread computes its columns alone, and every simdgroup of route its token.
var (
	combineChoice = &gpu.Choice{Name: "moe/combine threads", Values: gpu.ColumnThreads,
		Untuned: "256"}
	routeChoice = &gpu.Choice{Name: "moe/route simdgroups", Values: []int{1, 2, 4},
		Untuned: "2"}
)

// Choices returns how the kernels of this family may divide their work.
func Choices() []*gpu.Choice { return []*gpu.Choice{combineChoice, routeChoice} }

// Metal implements gpu.Op.
func (o *Combine) Metal(c *gpu.Context) {
	k, width := combine1, 1
	if gpu.Aligned16(o.Experts, o.Shared, o.Bias, o.Out) {
		k, width = combine4, 4
	}
	p := combineParams{Cols: uint32(o.Out.Cols / width), Chosen: uint32(o.Weights.Cols),
		ExpertsStride: uint32(o.Experts.Stride / width),
		SharedStride:  uint32(o.Shared.Stride / width), GateStride: uint32(o.SharedGate.Stride),
		OutStride: uint32(o.Out.Stride / width), Biases: uint32(o.Bias.Rows)}
	if !o.Shared.IsNone() {
		p.HasShared = 1
	}
	if !o.SharedGate.IsNone() {
		p.HasGate = 1
	}
	k.Dispatch(c, p, c.TunedColumns(combineChoice, o.Out.Rows, o.Out.Cols/width, combineThreads),
		gpu.Read(o.Experts), gpu.Read(o.Weights), gpu.Read(o.Shared), gpu.Read(o.SharedGate),
		gpu.Read(o.Bias), gpu.Read(o.IDs), gpu.Write(o.Out))
}

package recurrent

import (
	_ "embed"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed gated_delta.metal
var gatedDeltaText string

var (
	gatedDeltaSource = &gpu.Source{Name: "recurrent/gated_delta.metal", Text: gatedDeltaText}
	// gatedDeltaKernels are indexed by state type, wide, whole, and whether states are kept.
	gatedDeltaKernels [len(stateDTypes)][2][2][2]*gpu.Kernel[gatedDeltaParams]
)

func init() {
	for i, dtype := range stateDTypes {
		for wide := range 2 {
			for whole := range 2 {
				for keeping := range 2 {
					gatedDeltaKernels[i][wide][whole][keeping] =
						gpu.NewKernel[gatedDeltaParams](gatedDeltaSource, "gated_delta",
							metal.ConstantValue{Name: "dtype", Value: uint32(dtype)},
							metal.ConstantValue{Name: "wide", Value: wide == 1},
							metal.ConstantValue{Name: "whole", Value: whole == 1},
							keepingValue(keeping))
				}
			}
		}
	}
}

// gatedDeltaParams is GatedDeltaParams of gated_delta.metal. Strides are in elements.
type gatedDeltaParams struct {
	Hk, Hv, Dk, Dv                         uint32
	QKVStride, AStride, BStride, OutStride uint32
	SlotBytes, Window, Spans               uint32
	L2Eps                                  float32
}

const (
	gatedDeltaRows       = 4 // value rows per simdgroup: ROWS of gated_delta.metal
	gatedDeltaSimdgroups = 4 // per threadgroup, untuned
	// gatedDeltaWindow is the largest number of tokens prepared at a time, two for each simdgroup.
	// If Dk is 128 they use 8 KiB of threadgroup memory, so several threadgroups fit on a core.
	// Decoding one token uses 1 KiB.
	gatedDeltaWindow = 8
)

// Every simdgroup computes its rows alone.
var gatedDeltaChoice = &gpu.Choice{Name: "recurrent/gated_delta simdgroups",
	Values: []int{2, 4, 8}, Untuned: "4"}

// Choices returns how the kernels of this family may divide their work.
func Choices() []*gpu.Choice { return []*gpu.Choice{gatedDeltaChoice} }

// Metal implements gpu.Op. Each simdgroup computes a few value rows of a head for all tokens of a
// span.
func (o *GatedDelta) Metal(c *gpu.Context) {
	p := gatedDeltaParams{
		Hk: uint32(o.Hk), Hv: uint32(o.Hv), Dk: uint32(o.Dk), Dv: uint32(o.Dv),
		QKVStride: uint32(o.QKV.Stride), AStride: uint32(o.A.Stride), BStride: uint32(o.B.Stride),
		OutStride: uint32(o.Out.Stride),
		SlotBytes: uint32(o.State.Stride * o.State.DType.Size()),
		Window:    uint32(min(mostRows(o.Spans), gatedDeltaWindow)),
		Spans:     uint32(len(o.Spans)),
		L2Eps:     l2Eps,
	}
	wide, width := 0, 128
	if o.Dk > 128 {
		wide, width = 1, 256
	}
	whole := 0
	if o.Dk%4 == 0 && foursAligned(o.QKV) && foursAligned(o.State) {
		whole = 1
	}
	sg := c.Choose(gatedDeltaChoice, gpu.Shape{int32(o.Hv), int32(o.Dk), int32(o.Dv),
		int32(o.State.DType), gpu.Octave(o.QKV.Rows), gpu.Octave(len(o.Spans))},
		gatedDeltaSimdgroups)
	rows := gatedDeltaRows * sg
	g := gpu.Grid{
		Groups:           metal.Size{X: (o.Dv + rows - 1) / rows, Y: o.Hv, Z: len(o.Spans)},
		Threads:          metal.Size{X: 32 * sg, Y: 1, Z: 1},
		ThreadgroupBytes: int(p.Window) * 4 * (2*width + 4),
	}
	spans, keeping := spansAndKeeps(c, o.Spans, o.Rounds, o.QKV.Rows)
	gatedDeltaKernels[stateDTypeIndex(o.State.DType)][wide][whole][keeping].Dispatch(c, p, g,
		gpu.Read(o.QKV), gpu.Read(o.A), gpu.Read(o.B), gpu.Read(o.ALog), gpu.Read(o.DtBias),
		gpu.Write(o.State), spans, gpu.Write(o.Out))
}

// foursAligned reports whether a GPU can load four elements at once from every column that is a
// multiple of four.
func foursAligned(t kernels.Tensor) bool {
	four := 4 * t.DType.Size()
	return t.Offset%four == 0 && t.Stride%4 == 0
}

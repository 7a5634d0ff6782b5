package recurrent

import (
	_ "embed"

	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed ssm.metal
var ssmText string

var (
	ssmSource = &gpu.Source{Name: "recurrent/ssm.metal", Text: ssmText}
	// ssmKernels are indexed by state type, wide, whole, and whether states are kept.
	ssmKernels [len(stateDTypes)][2][2][2]*gpu.Kernel[ssmParams]
)

func init() {
	for i, dtype := range stateDTypes {
		for wide := range 2 {
			for whole := range 2 {
				for keeping := range 2 {
					ssmKernels[i][wide][whole][keeping] = gpu.NewKernel[ssmParams](ssmSource, "ssm",
						metal.ConstantValue{Name: "dtype", Value: uint32(dtype)},
						metal.ConstantValue{Name: "wide", Value: wide == 1},
						metal.ConstantValue{Name: "whole", Value: whole == 1},
						keepingValue(keeping))
				}
			}
		}
	}
}

// ssmParams is SSMParams of ssm.metal. Strides are in elements.
type ssmParams struct {
	Heads, Groups, Dim, N        uint32
	XStride, DtStride, OutStride uint32
	SlotBytes, Spans             uint32
	DtMin, DtMax                 float32
}

const (
	ssmRows       = 4 // rows per simdgroup: ROWS of ssm.metal
	ssmSimdgroups = 4 // per threadgroup
)

// Metal implements gpu.Op. Each simdgroup computes a few rows of a head for all tokens of a span.
func (o *SSM) Metal(c *gpu.Context) {
	p := ssmParams{Heads: uint32(o.Heads), Groups: uint32(o.Groups), Dim: uint32(o.Dim),
		N: uint32(o.N), XStride: uint32(o.X.Stride), DtStride: uint32(o.Dt.Stride),
		OutStride: uint32(o.Out.Stride),
		SlotBytes: uint32(o.State.Stride * o.State.DType.Size()), DtMin: o.DtMin, DtMax: o.DtMax,
		Spans: uint32(len(o.Spans))}
	wide, whole := 0, 0
	if o.N > 128 {
		wide = 1
	}
	if o.N%4 == 0 && o.Heads*o.Dim%4 == 0 && foursAligned(o.X) && foursAligned(o.State) {
		whole = 1
	}
	const rows = ssmRows * ssmSimdgroups
	g := gpu.Grid{
		Groups:  metal.Size{X: (o.Dim + rows - 1) / rows, Y: o.Heads, Z: len(o.Spans)},
		Threads: metal.Size{X: 32 * ssmSimdgroups, Y: 1, Z: 1},
	}
	spans, keeping := spansAndKeeps(c, o.Spans, o.Rounds, o.X.Rows)
	ssmKernels[stateDTypeIndex(o.State.DType)][wide][whole][keeping].Dispatch(c, p, g,
		gpu.Read(o.X), gpu.Read(o.Dt), gpu.Read(o.ALog), gpu.Read(o.DtBias), gpu.Read(o.D),
		gpu.Write(o.State), spans, gpu.Write(o.Out))
}

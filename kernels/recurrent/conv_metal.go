package recurrent

import (
	_ "embed"
	"slices"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed conv.metal
var convText string

var (
	convSource = &gpu.Source{Name: "recurrent/conv.metal", Text: convText}
	// Both are indexed by state type and taps, and convKernels also by whether states are kept.
	convKernels     [len(stateDTypes)][MaxTaps + 1][2]*gpu.Kernel[convParams]
	convKeepKernels [len(stateDTypes)][MaxTaps + 1]*gpu.Kernel[convParams]
)

// stateDTypes are the types of a state. Each kernel is specialized for one of them by a function
// constant.
var stateDTypes = [...]kernels.DType{kernels.F32, kernels.BF16, kernels.I8}

func stateDTypeIndex(dtype kernels.DType) int {
	for i, f := range stateDTypes {
		if f == dtype {
			return i
		}
	}
	panic("recurrent: no Metal kernel for a state of " + dtype.String() + ": Check must reject it")
}

func init() {
	for i, dtype := range stateDTypes {
		for taps := 2; taps <= MaxTaps; taps++ {
			constants := []metal.ConstantValue{{Name: "dtype", Value: uint32(dtype)},
				{Name: "taps", Value: uint32(taps)}}
			convKeepKernels[i][taps] =
				gpu.NewKernel[convParams](convSource, "conv_keep",
					append(slices.Clip(constants), keepingValue(0))...)
			for keeping := range 2 {
				convKernels[i][taps][keeping] = gpu.NewKernel[convParams](convSource, "conv",
					append(slices.Clip(constants), keepingValue(keeping))...)
			}
		}
	}
}

// convParams is ConvParams of conv.metal. Strides are in elements.
type convParams struct {
	Channels, XStride, OutStride, SlotBytes, Chunk, Linear, Biased, Spans uint32
}

const (
	// convChunk is the number of rows per simdgroup. Each chunk rounds the taps-1 rows before it
	// again. 32 rows make this cost small, and still split a prompt into many chunks.
	convChunk      = 32
	convSimdgroups = 4 // per threadgroup
)

// Metal implements gpu.Op. Each simdgroup computes 64 channels of a chunk of rows. A second
// dispatch writes the states of spans with several chunks.
func (o *Conv) Metal(c *gpu.Context) {
	p := convParams{Channels: uint32(o.X.Cols), XStride: uint32(o.X.Stride),
		OutStride: uint32(o.Out.Stride),
		SlotBytes: uint32(o.State.Stride * o.State.DType.Size()), Chunk: convChunk,
		Spans: uint32(len(o.Spans))}
	if o.Linear {
		p.Linear = 1
	}
	if !o.Bias.IsNone() {
		p.Biased = 1
	}
	longest := mostRows(o.Spans)
	blocks := (o.X.Cols + convGroup*convSimdgroups - 1) / (convGroup * convSimdgroups)
	g := gpu.Grid{Groups: metal.Size{X: blocks, Y: (longest + convChunk - 1) / convChunk,
		Z: len(o.Spans)}, Threads: metal.Size{X: 32 * convSimdgroups, Y: 1, Z: 1}}
	dtype, taps := stateDTypeIndex(o.State.DType), o.Weight.Cols
	spans, keeping := spansAndKeeps(c, o.Spans, o.Rounds, o.X.Rows)
	convKernels[dtype][taps][keeping].Dispatch(c, p, g, gpu.Read(o.X), gpu.Read(o.Weight),
		gpu.Write(o.State), spans, gpu.Write(o.Out), gpu.Read(o.Bias))
	if longest > convChunk {
		g.Groups.Y = 1
		convKeepKernels[dtype][taps].Dispatch(c, p, g, gpu.Read(o.X), gpu.Write(o.State),
			c.Spans(o.Spans))
	}
}

// mostRows returns the number of rows of the longest span.
func mostRows(spans []kernels.Span) int {
	most := 0
	for _, s := range spans {
		most = max(most, s.Rows)
	}
	return most
}

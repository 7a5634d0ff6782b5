package rope

import (
	_ "embed"

	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed norm_rope.metal
var normRopeText string

var (
	normRopeSource = &gpu.Source{Name: "rope/norm_rope.metal", Text: normRopeText}
	normRopeKernel = gpu.NewKernel[normRopeParams](normRopeSource, "norm_rope")
)

// normRopeParams is NormRopeParams of norm_rope.metal. Strides are in elements.
type normRopeParams struct {
	Spans                      int32
	Heads, HeadDim, RotaryHalf uint32
	XStride, OutStride         uint32
	HasWeight                  uint32
	PosStep, PosScales         uint32
	Interleaved                uint32
	Eps, Scale                 float32
}

// normRopeHeads is the number of heads per threadgroup. They share the cosines and sines of a row,
// but the heads of one token still make several threadgroups.
const normRopeHeads = 4

// Metal implements gpu.Op. Each threadgroup computes a few heads of a row, and each simdgroup one
// head. The result does not depend on the number of threads.
func (o *NormRope) Metal(c *gpu.Context) {
	p := normRopeParams{Spans: int32(len(o.Spans)), Heads: uint32(o.Heads),
		HeadDim: uint32(o.X.Cols), RotaryHalf: uint32(o.InvFreq.Cols),
		XStride: uint32(o.X.Stride), OutStride: uint32(o.Out.Stride), PosStep: uint32(o.PosStep),
		PosScales: uint32(o.PosScale.Cols), Eps: o.Eps, Scale: o.scale()}
	if !o.Weight.IsNone() {
		p.HasWeight = 1
	}
	if o.Interleaved {
		p.Interleaved = 1
	}
	simdgroups := min(o.Heads, normRopeHeads)
	g := gpu.Grid{Groups: metal.Size{X: o.X.Rows / o.Heads,
		Y: (o.Heads + simdgroups - 1) / simdgroups, Z: 1},
		Threads:          metal.Size{X: 32 * simdgroups, Y: 1, Z: 1},
		ThreadgroupBytes: (8*o.InvFreq.Cols + 15) / 16 * 16}
	normRopeKernel.Dispatch(c, p, g, c.Spans(o.Spans), gpu.Read(o.X), gpu.Read(o.Weight),
		gpu.Read(o.InvFreq), gpu.Read(o.PosScale), gpu.Write(o.Out))
}

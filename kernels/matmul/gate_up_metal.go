package matmul

import (
	_ "embed"

	"headroom/kernels"
	"headroom/kernels/gpu"
)

//go:embed gate.metal
var gateText string

var gateKernel = gpu.NewKernel[gateParams](&gpu.Source{Name: "matmul/gate.metal", Text: gateText},
	"gate")

// gateParams mirrors GateParams in gate.metal.
type gateParams struct{ Cols, GateStride, OutStride uint32 }

// Metal implements gpu.Op. If no row is prefill and the weights have one format, it is one
// dispatch; otherwise the products come first. A row's bits are the same either way.
func (o *GateUp) Metal(c *gpu.Context) {
	g, u := o.Gate, o.Up
	if len(o.Prefill) > 0 || g.Bits != u.Bits || g.Group != u.Group ||
		g.Mode != u.Mode || g.Data.DType != u.Data.DType || g.Scales.DType != u.Scales.DType {
		o.products().(gpu.Op).Metal(c)
		gateKernel.Dispatch(c, gateParams{uint32(o.Out.Cols), uint32(o.Temp.Stride),
			uint32(o.Out.Stride)},
			gpu.RowsByColumns(o.Out.Rows, o.Out.Cols, 256), gpu.Read(o.Temp), gpu.Write(o.Out))
		return
	}
	if o.Out.Rows == 0 {
		return
	}
	part := Part{W: g, Out: o.Out}
	p := launch{x: o.X, part: part, choice: gpu.Read(kernels.Tensor{}), shared: 1}
	if !o.IDs.IsNone() {
		o.products()
		p = o.experts.launch(part, Rows{0, o.IDs.Rows})
		p.choice = gpu.Read(o.IDs)
	}
	p.up = u
	p.few(c)
}

package norm

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed gated_rms_norm.metal
var gatedRMSNormText string

var (
	gatedRMSNormSource = &gpu.Source{Name: "norm/gated_rms_norm.metal", Text: gatedRMSNormText}
	gatedRMSNormKernel = gpu.NewKernel[gatedRMSNormParams](gatedRMSNormSource, "gated_rms_norm")
)

// gatedRMSNormParams is GatedRMSNormParams of gated_rms_norm.metal. Strides are in elements.
type gatedRMSNormParams struct {
	Rows, Cols, XStride, GateStride, OutStride uint32
	Eps                                        float32
}

// gatedRMSNormSimdgroups is the number of simdgroups, and so of rows, per threadgroup.
const gatedRMSNormSimdgroups = 4

// Metal implements gpu.Op. Each simdgroup computes one row.
func (o *GatedRMSNorm) Metal(c *gpu.Context) {
	p := gatedRMSNormParams{Rows: uint32(o.X.Rows), Cols: uint32(o.X.Cols),
		XStride: uint32(o.X.Stride), GateStride: uint32(o.Gate.Stride),
		OutStride: uint32(o.Out.Stride), Eps: o.Eps}
	groups := (o.X.Rows + gatedRMSNormSimdgroups - 1) / gatedRMSNormSimdgroups
	gatedRMSNormKernel.Dispatch(c, p, gpu.Rows(groups, 32*gatedRMSNormSimdgroups),
		gpu.Read(o.X), gpu.Read(o.Gate), gpu.Read(o.Weight), gpu.Write(o.Out))
}

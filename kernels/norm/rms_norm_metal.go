package norm

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed rms_norm.metal
var rmsNormText string

var (
	rmsNormSource = &gpu.Source{Name: "norm/rms_norm.metal", Text: rmsNormText}
	rmsNormKernel = gpu.NewKernel[rmsNormParams](rmsNormSource, "rms_norm")
)

// rmsNormParams is RMSNormParams of rms_norm.metal. Strides are in elements.
type rmsNormParams struct {
	Cols, XStride, ResidualStride, OutStride uint32
	HasResidual                              uint32
	Eps                                      float32
}

// Metal implements gpu.Op. Each threadgroup computes one row. Its size depends only on the width.
func (o *RMSNorm) Metal(c *gpu.Context) {
	p := rmsNormParams{Cols: uint32(o.X.Cols), XStride: uint32(o.X.Stride),
		OutStride: uint32(o.Out.Stride), Eps: o.Eps}
	if !o.Residual.IsNone() {
		p.HasResidual, p.ResidualStride = 1, uint32(o.Residual.Stride)
	}
	threads := 32
	for threads < 512 && threads*4 < o.X.Cols {
		threads *= 2
	}
	rmsNormKernel.Dispatch(c, p, gpu.Rows(o.X.Rows, threads),
		gpu.Read(o.X), gpu.Write(o.Residual), gpu.Read(o.Weight), gpu.Write(o.Out))
}

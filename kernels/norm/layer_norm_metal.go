package norm

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed layer_norm.metal
var layerNormText string

var (
	layerNormSource = &gpu.Source{Name: "norm/layer_norm.metal", Text: layerNormText}
	layerNormKernel = gpu.NewKernel[layerNormParams](layerNormSource, "layer_norm")
)

// layerNormParams is LayerNormParams of layer_norm.metal. Strides are in elements.
type layerNormParams struct {
	Cols, XStride, ResidualStride, OutStride uint32
	HasResidual, HasBias                     uint32
	Eps                                      float32
}

// Metal implements gpu.Op. Each threadgroup computes one row. Its size depends only on the width.
func (o *LayerNorm) Metal(c *gpu.Context) {
	p := layerNormParams{Cols: uint32(o.X.Cols), XStride: uint32(o.X.Stride),
		OutStride: uint32(o.Out.Stride), Eps: o.Eps}
	if !o.Residual.IsNone() {
		p.HasResidual, p.ResidualStride = 1, uint32(o.Residual.Stride)
	}
	if !o.Bias.IsNone() {
		p.HasBias = 1
	}
	threads := 32
	for threads < 512 && threads*4 < o.X.Cols {
		threads *= 2
	}
	layerNormKernel.Dispatch(c, p, gpu.Rows(o.X.Rows, threads), gpu.Read(o.X),
		gpu.Write(o.Residual), gpu.Read(o.Weight), gpu.Read(o.Bias), gpu.Write(o.Out))
}

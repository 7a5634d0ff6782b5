package embedding

import (
	_ "embed"

	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed columns.metal
var columnsText string

var columnsKernel = gpu.NewKernel[columnsParams](
	&gpu.Source{Name: "embedding/columns.metal", Text: columnsText}, "columns")

// columnsParams is ColumnsParams of columns.metal. Strides are in elements.
type columnsParams struct{ Cols, XStride, OutStride uint32 }

// Metal implements gpu.Op. Each thread copies one element.
func (o *Columns) Metal(c *gpu.Context) {
	const threads = 128
	p := columnsParams{Cols: uint32(o.X.Cols), XStride: uint32(o.X.Stride),
		OutStride: uint32(o.Out.Stride)}
	columnsKernel.Dispatch(c, p, gpu.Grid{
		Groups:  metal.Size{X: (o.X.Cols + threads - 1) / threads, Y: o.X.Rows, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1},
	}, gpu.Read(o.X), gpu.Read(o.Order), gpu.Write(o.Out))
}

package embedding

import (
	_ "embed"

	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed rows.metal
var rowsText string

var rowsKernel = gpu.NewKernel[rowsParams](
	&gpu.Source{Name: "embedding/rows.metal", Text: rowsText}, "rows")

// rowsParams is RowsParams of rows.metal. Strides are in elements.
type rowsParams struct{ Cols, XStride, OutStride uint32 }

// Metal implements gpu.Op. Each thread copies one element.
func (o *Rows) Metal(c *gpu.Context) {
	const threads = 128
	rowsKernel.Dispatch(c, rowsParams{uint32(o.X.Cols), uint32(o.X.Stride), uint32(o.Out.Stride)},
		gpu.Grid{
			Groups:  metal.Size{X: (o.X.Cols + threads - 1) / threads, Y: len(o.Indices), Z: 1},
			Threads: metal.Size{X: threads, Y: 1, Z: 1},
		}, gpu.Read(o.X), gpu.Ints(o.Indices), gpu.Write(o.Out))
}

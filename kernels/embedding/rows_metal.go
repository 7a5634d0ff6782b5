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
type rowsParams struct{ Cols, XStride, OutStride, Targeted uint32 }

// Metal implements gpu.Op. Each thread copies one element.
func (o *Rows) Metal(c *gpu.Context) {
	const threads = 128
	p := rowsParams{Cols: uint32(o.X.Cols), XStride: uint32(o.X.Stride),
		OutStride: uint32(o.Out.Stride)}
	targets := o.Indices
	if o.Targets != nil {
		p.Targeted, targets = 1, o.Targets
	}
	rowsKernel.Dispatch(c, p, gpu.Grid{
		Groups:  metal.Size{X: (o.X.Cols + threads - 1) / threads, Y: len(o.Indices), Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1},
	}, gpu.Read(o.X), gpu.Ints(o.Indices), gpu.Ints(targets), gpu.Write(o.Out))
}

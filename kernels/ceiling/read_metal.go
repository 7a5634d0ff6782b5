package ceiling

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed read.metal
var readText string

var (
	readSource = &gpu.Source{Name: "ceiling/read.metal", Text: readText}
	readKernel = gpu.NewKernel[readParams](readSource, "read")
)

// readParams mirrors ReadParams in read.metal.
type readParams struct{ Vectors, SumsStride uint32 }

// Metal implements gpu.Op with a threadgroup per row.
func (o *Read) Metal(c *gpu.Context) {
	vectors, threads := o.X.Cols/4, 32
	for threads < 1024 && threads < vectors/8 {
		threads *= 2
	}
	readKernel.Dispatch(c, readParams{Vectors: uint32(vectors), SumsStride: uint32(o.Sums.Stride)},
		gpu.Rows(o.X.Rows, threads),
		gpu.Read(o.X), gpu.Write(o.Sums))
}

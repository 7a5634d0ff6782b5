package activation

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed soft_cap.metal
var softCapText string

var (
	softCapSource = &gpu.Source{Name: "activation/soft_cap.metal", Text: softCapText}
	softCapKernel = gpu.NewKernel[softCapParams](softCapSource, "soft_cap")
)

// softCapParams mirrors SoftCapParams in soft_cap.metal.
type softCapParams struct {
	Cols, XStride, OutStride uint32
	Cap                      float32
}

const softCapThreads = 256

// Metal implements gpu.Op.
func (o *SoftCap) Metal(c *gpu.Context) {
	if o.Out.Rows == 0 || o.Out.Cols == 0 {
		return
	}
	p := softCapParams{Cols: uint32(o.Out.Cols), XStride: uint32(o.X.Stride),
		OutStride: uint32(o.Out.Stride), Cap: o.Cap}
	softCapKernel.Dispatch(c, p, gpu.RowsByColumns(o.Out.Rows, o.Out.Cols, softCapThreads),
		gpu.Read(o.X), gpu.Write(o.Out))
}

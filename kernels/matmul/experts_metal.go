package matmul

import "headroom/kernels/gpu"

// Metal implements gpu.Op: linear.metal for each row of Out, with the matrix that its id names.
func (o *Experts) Metal(c *gpu.Context) {
	for _, p := range o.Parts {
		few(c, o.X, p, linearParams{
			Rows: uint32(o.IDs.Rows * o.IDs.Cols), PerInput: uint32(o.perInput()),
			Experts: uint32(p.W.Experts), Choices: uint32(o.IDs.Cols), IDsStride: uint32(o.IDs.Stride),
		}, o.IDs)
	}
}

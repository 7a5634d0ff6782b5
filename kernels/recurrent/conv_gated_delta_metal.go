package recurrent

import "headroom/kernels/gpu"

// Metal implements gpu.Op. It runs the two operators in sequence.
func (o *ConvGatedDelta) Metal(c *gpu.Context) {
	conv, delta := o.parts()
	conv.Metal(c)
	delta.Metal(c)
}

package recurrent

import "headroom/kernels/gpu"

// Metal implements gpu.Op: one after the other.
func (o *ConvGatedDelta) Metal(c *gpu.Context) {
	conv, delta := o.parts()
	conv.Metal(c)
	delta.Metal(c)
}

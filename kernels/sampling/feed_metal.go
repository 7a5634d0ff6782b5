package sampling

import (
	_ "embed"

	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed feed.metal
var feedText string

var feedKernel = gpu.NewKernel[feedParams](&gpu.Source{Name: "sampling/feed.metal", Text: feedText},
	"feed")

// feedParams is FeedParams of feed.metal. Strides are in elements.
type feedParams struct{ Rows, ChosenStride, OutStride uint32 }

// Metal implements gpu.Op. Each thread copies one token.
func (o *Feed) Metal(c *gpu.Context) {
	const threads = 64
	feedKernel.Dispatch(c, feedParams{uint32(len(o.Tokens)), uint32(o.Chosen.Stride),
		uint32(o.Out.Stride)}, gpu.Grid{
		Groups:  metal.Size{X: (len(o.Tokens) + threads - 1) / threads, Y: 1, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1},
	}, gpu.Ints(o.Tokens), gpu.Read(o.Chosen), gpu.Write(o.Out))
}

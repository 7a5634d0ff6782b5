package moe

import (
	_ "embed"

	"headroom/kernels/gpu"
)

//go:embed route.metal
var routeText string

var (
	routeSource = &gpu.Source{Name: "moe/route.metal", Text: routeText}
	routeKernel = gpu.NewKernel[routeParams](routeSource, "route")
)

// routeParams mirrors RouteParams in route.metal.
type routeParams struct {
	Rows, Experts, LogitsStride, Chosen, Normalize, Scaled, Sigmoid, Biased uint32
	Groups, TopGroups                                                       uint32
	Epsilon                                                                 float32
}

// routeSimdgroups is the untuned number of tokens, and of simdgroups, of a threadgroup.
const routeSimdgroups = 2

// Metal implements gpu.Op. Each simdgroup computes one token.
func (o *Route) Metal(c *gpu.Context) {
	p := routeParams{Rows: uint32(o.Logits.Rows), Experts: uint32(o.Logits.Cols),
		LogitsStride: uint32(o.Logits.Stride), Chosen: uint32(o.K), Epsilon: o.Epsilon,
		Normalize: flagOf(o.Normalize), Scaled: flagOf(!o.Scale.IsNone()),
		Sigmoid: flagOf(o.Sigmoid), Biased: flagOf(!o.Bias.IsNone()),
		Groups: uint32(o.Groups), TopGroups: uint32(o.TopGroups)}
	sg := c.Choose(routeChoice, gpu.Shape{gpu.Octave(o.Logits.Rows), int32(o.Logits.Cols),
		int32(o.K)}, routeSimdgroups)
	routeKernel.Dispatch(c, p, gpu.Rows((o.Logits.Rows+sg-1)/sg, 32*sg),
		gpu.Read(o.Logits), gpu.Read(o.Scale), gpu.Read(o.Bias), gpu.Write(o.IDs),
		gpu.Write(o.Weights))
}

func flagOf(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

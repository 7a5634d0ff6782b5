package embedding

import (
	_ "embed"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed lookup.metal
var lookupText string

type lookupVariant struct {
	bits  int
	dtype kernels.DType
}

var lookupKernels = func() map[lookupVariant]*gpu.Kernel[lookupParams] {
	all := map[lookupVariant]*gpu.Kernel[lookupParams]{}
	for _, bits := range gpu.WeightBits {
		source := gpu.WeightSource("embedding/lookup.metal", lookupText, bits)
		for _, dtype := range gpu.WeightDTypes(bits) {
			all[lookupVariant{bits, dtype}] = gpu.NewKernel[lookupParams](source, "lookup",
				metal.ConstantValue{Name: "DTYPE", Value: uint32(dtype)})
		}
	}
	return all
}()

// lookupParams is LookupParams of lookup.metal. Strides are in elements.
type lookupParams struct {
	Vocabulary                uint32
	FirstRow, Rows            uint32
	K                         uint32
	TokensStride, OutStride   uint32
	DataFirst, DataStride     uint32
	ScalesFirst, ScalesStride uint32
	BiasesFirst, BiasesStride uint32
	UnitsPerGroup             uint32
	Factor                    float32
}

// Metal implements gpu.Op. Each thread writes eight elements of a row. A weight that does not lie
// in one Metal buffer takes several dispatches.
func (o *Lookup) Metal(c *gpu.Context) {
	for at := 0; at < o.W.N; {
		r := gpu.RangeFrom(at, o.W)
		o.dispatch(c, r)
		at += r.Rows
	}
}

// dispatch looks up the tokens whose rows are in r.
func (o *Lookup) dispatch(c *gpu.Context, r gpu.Range) {
	w := gpu.ReadWeight(o.W, r)
	p := lookupParams{
		Vocabulary: uint32(o.W.N), FirstRow: uint32(r.Row), Rows: uint32(r.Rows),
		K: uint32(o.W.K), TokensStride: uint32(o.Tokens.Stride),
		OutStride: uint32(o.Out.Stride),
		DataFirst: w.Data.First, DataStride: w.Data.Stride,
		ScalesFirst: w.Scales.First, ScalesStride: w.Scales.Stride,
		BiasesFirst: w.Biases.First, BiasesStride: w.Biases.Stride,
		UnitsPerGroup: w.UnitsPerGroup(), Factor: o.scale(),
	}
	const elements, threads = 8, 64
	lookupKernels[lookupVariant{w.Bits, w.DType}].Dispatch(c, p, gpu.Grid{
		Groups: metal.Size{X: (o.W.K + elements*threads - 1) / (elements * threads),
			Y: o.Tokens.Rows, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1},
	}, gpu.Read(o.Tokens), w.Data.Operand, w.Scales.Operand, w.Biases.Operand, gpu.Write(o.Out))
}

package matmul

import (
	_ "embed"
	"fmt"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed linear.metal
var linearText string

// variant is what a kernel of linear.metal is compiled for.
type variant struct {
	bits    int
	dtype   kernels.DType
	aligned bool
	rows    int // of x that a threadgroup takes
}

// linearKernels has every variant. Each width of codes is a source of its own, so that a model compiles only what it uses.
var linearKernels = func() map[variant]*gpu.Kernel[linearParams] {
	all := map[variant]*gpu.Kernel[linearParams]{}
	for _, bits := range gpu.WeightBits {
		source := gpu.WeightSource("matmul/linear.metal", linearText, bits)
		for _, dtype := range gpu.WeightDTypes {
			for _, aligned := range []bool{false, true} {
				for _, rows := range []int{1, 2, 4, 8} {
					all[variant{bits, dtype, aligned, rows}] = gpu.NewKernel[linearParams](source, fmt.Sprintf("linear_%d", rows),
						metal.ConstantValue{Name: "DTYPE", Value: uint32(dtype)}, metal.ConstantValue{Name: "ALIGNED", Value: aligned})
				}
			}
		}
	}
	return all
}()

// linearParams is LinearParams of linear.metal; strides in elements.
type linearParams struct {
	Rows, N, K, XStride, OutStride uint32
	DataFirst, DataStride          uint32
	ScalesFirst, ScalesStride      uint32
	BiasesFirst, BiasesStride      uint32
	UnitsPerGroup                  uint32
	Experts, Choices, IDsStride    uint32
	PerInput                       uint32
}

// fewRows is how many rows of x a threadgroup takes at most.
const fewRows = 8

// Metal implements gpu.Op.
func (o *Linear) Metal(c *gpu.Context) {
	for _, p := range o.Parts {
		few(c, o.X, p, linearParams{Rows: uint32(o.X.Rows), PerInput: 1}, kernels.Tensor{})
	}
}

// few dispatches linear.metal for one part. What rows there are and whose they are is in params already.
func few(c *gpu.Context, x kernels.Tensor, part Part, params linearParams, ids kernels.Tensor) {
	if params.Rows == 0 {
		return
	}
	in, w := gpu.ReadMatrix(x), gpu.ReadWeight(part.W)
	params.N, params.K = uint32(part.W.N), uint32(part.W.K)
	params.XStride, params.OutStride = uint32(x.Stride), uint32(part.Out.Stride)
	params.DataFirst, params.DataStride = w.Data.First, w.Data.Stride
	params.ScalesFirst, params.ScalesStride = w.Scales.First, w.Scales.Stride
	params.BiasesFirst, params.BiasesStride = w.Biases.First, w.Biases.Stride
	params.UnitsPerGroup = w.UnitsPerGroup()
	v := variant{bits: w.Bits, dtype: w.DType, aligned: w.Aligned && in.Aligned(4, 16), rows: 1}
	for params.Experts == 0 && v.rows < fewRows && v.rows < int(params.Rows) {
		v.rows *= 2
	}
	const columns, threads = 16, 64 // of a threadgroup
	linearKernels[v].Dispatch(c, params, gpu.Grid{
		Groups:  metal.Size{X: (part.W.N + columns - 1) / columns, Y: (int(params.Rows) + v.rows - 1) / v.rows, Z: 1},
		Threads: metal.Size{X: threads, Y: 1, Z: 1},
	}, in.Operand, w.Data.Operand, w.Scales.Operand, w.Biases.Operand, gpu.Read(ids), gpu.Write(part.Out))
}

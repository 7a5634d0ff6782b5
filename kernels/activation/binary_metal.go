package activation

import (
	_ "embed"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed binary.metal
var binaryText string

var binarySource = &gpu.Source{Name: "activation/binary.metal", Text: binaryText}

// binaryKernels are the kernels of each function, with one and with four elements per thread.
var binaryKernels = [...][2]*gpu.Kernel[binaryParams]{
	sigmoidMul: binaryPair(sigmoidMul), add: binaryPair(add), geluMul: binaryPair(geluMul),
	siluMul: binaryPair(siluMul), mul: binaryPair(mul),
	geluErfMul: binaryPair(geluErfMul), reluMul: binaryPair(reluMul),
}

func binaryPair(f function) [2]*gpu.Kernel[binaryParams] {
	operation := metal.ConstantValue{Name: "operation", Value: int32(f)}
	return [2]*gpu.Kernel[binaryParams]{
		gpu.NewKernel[binaryParams](binarySource, "binary_1", operation),
		gpu.NewKernel[binaryParams](binarySource, "binary_4", operation),
	}
}

// binaryParams is BinaryParams of binary.metal.
type binaryParams struct{ Cols, XStride, YStride, OutStride uint32 }

const binaryThreads = 256

// Every thread computes its elements alone.
var binaryChoice = &gpu.Choice{Name: "activation/threads", Values: gpu.ColumnThreads,
	Untuned: "256"}

// Choices returns how the kernels of this family may divide their work.
func Choices() []*gpu.Choice { return []*gpu.Choice{binaryChoice} }

// metal encodes f. Contiguous tensors are treated as one long row.
func (f function) metal(c *gpu.Context, x, y, out kernels.Tensor) {
	if out.Cols == 0 {
		return
	}
	if x.Contiguous() && y.Contiguous() && out.Contiguous() {
		n := out.Rows * out.Cols
		x, y, out = x.Reshape(1, n), y.Reshape(1, n), out.Reshape(1, n)
	}
	k, width := binaryKernels[f][0], 1
	if gpu.Aligned16(x, y, out) {
		k, width = binaryKernels[f][1], 4
	}
	p := binaryParams{Cols: uint32(out.Cols / width), XStride: uint32(x.Stride / width),
		YStride: uint32(y.Stride / width), OutStride: uint32(out.Stride / width)}
	k.Dispatch(c, p, c.TunedColumns(binaryChoice, out.Rows, out.Cols/width, binaryThreads),
		gpu.Read(x), gpu.Read(y), gpu.Write(out))
}

// Metal implements gpu.Op.
func (o *GELUMul) Metal(c *gpu.Context) { geluMul.metal(c, o.Gate, o.Up, o.Out) }

// Metal implements gpu.Op.
func (o *GELUErfMul) Metal(c *gpu.Context) { geluErfMul.metal(c, o.Gate, o.Up, o.Out) }

// Metal implements gpu.Op.
func (o *SiLUMul) Metal(c *gpu.Context) { siluMul.metal(c, o.Gate, o.Up, o.Out) }

// Metal implements gpu.Op.
func (o *ReLUMul) Metal(c *gpu.Context) { reluMul.metal(c, o.Gate, o.Up, o.Out) }

// Metal implements gpu.Op.
func (o *SigmoidMul) Metal(c *gpu.Context) { sigmoidMul.metal(c, o.X, o.Gate, o.Out) }

// Metal implements gpu.Op.
func (o *Add) Metal(c *gpu.Context) { add.metal(c, o.X, o.Y, o.Out) }

// Metal implements gpu.Op.
func (o *Mul) Metal(c *gpu.Context) { mul.metal(c, o.X, o.Y, o.Out) }

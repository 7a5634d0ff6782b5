package activation

// The common part of the operators with two inputs and one output. A unit of work is up to
// blockCols columns of one row, so that threads can share one wide row (decode) or many narrow ones
// (heads in prefill). Every element depends only on its two inputs, so the split does not affect
// the result.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// function is an elementwise function. binary.c and binary.metal use the same numbers.
type function int32

const (
	sigmoidMul function = 0 // x * sigmoid(y)
	add        function = 1 // x + y
	geluMul    function = 2 // gelu(x) * y
	siluMul    function = 3 // x * sigmoid(x) * y
	mul        function = 4 // x * y
	geluErfMul function = 5 // gelu(x) * y, with the error function
	reluMul    function = 6 // max(x, 0) * y
)

const (
	blockCols     = 1024
	grainElements = 16384 // about 5 µs of work
)

func (f function) apply(x, y float32) float32 {
	switch f {
	case sigmoidMul:
		return float32(float64(x) * sigmoid(y))
	case geluMul:
		return float32(gelu(float64(x)) * float64(y))
	case siluMul:
		return float32(float64(x) * sigmoid(x) * float64(y))
	case mul:
		return x * y
	case geluErfMul:
		return float32(geluErf(float64(x)) * float64(y))
	case reluMul:
		return max(x, 0) * y
	}
	return x + y
}

func sigmoid(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }

func blocksPerRow(t kernels.Tensor) int { return (t.Cols + blockCols - 1) / blockCols }

func check(xName string, x kernels.Tensor, yName string, y, out kernels.Tensor) error {
	return errors.Join(
		kernels.CheckShape(xName, x, kernels.F32, -1, -1),
		kernels.CheckShape(yName, y, kernels.F32, x.Rows, x.Cols),
		kernels.CheckShape("out", out, kernels.F32, x.Rows, x.Cols))
}

func parallel(c *cpu.Context, t cpu.Task, out kernels.Tensor) {
	if out.Rows == 0 || out.Cols == 0 {
		return
	}
	c.Parallel(t, 0, out.Rows*blocksPerRow(out), max(1, grainElements/min(out.Cols, blockCols)))
}

// rows computes units [from, to). It is the specification, and builds without cgo run it.
func (f function) rows(x, y, out kernels.Tensor, from, to int) {
	blocks := blocksPerRow(out)
	for u := from; u < to; u++ {
		r, first := u/blocks, u%blocks*blockCols
		x, y, out := x.Row(r), y.Row(r), out.Row(r)
		for i := first; i < min(first+blockCols, len(out)); i++ {
			out[i] = f.apply(x[i], y[i])
		}
	}
}

func (f function) run(isa cpu.ISA, x, y, out kernels.Tensor, from, to int) {
	if isa == cpu.Generic {
		f.rows(x, y, out, from, to)
		return
	}
	f.native(isa, x, y, out, from, to)
}

// cases returns a case for each shape. strided makes y a view of a wider tensor, like the output
// gate of attention in its projection, and inPlace makes x the output.
func cases(name string, relTol float64, why string,
	build func(x, y, out kernels.Tensor) kernels.Op) []kernels.Case {
	var list []kernels.Case
	for _, s := range []struct {
		rows, cols       int
		strided, inPlace bool
	}{{1, 5, false, false}, {3, 1040, false, true}, {1, 17408, false, false}, {33, 64, true, true},
		{2048, 256, true, false}, {512, 512, false, true}} {
		list = append(list, kernels.Case{
			Name: fmt.Sprintf("%s_f32_m%d_n%d_strided_%t_inplace_%t", name, s.rows, s.cols,
				s.strided, s.inPlace),
			RelTol: relTol, Why: why,
			Bytes: int64(12 * s.rows * s.cols),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				x := kernels.RandomTensor(d, r, s.rows, s.cols, 3)
				y := kernels.RandomTensor(d, r, s.rows, s.cols, 3)
				if s.strided {
					y = kernels.RandomTensor(d, r, s.rows, 2*s.cols, 3).Columns(s.cols, 2*s.cols)
				}
				out := x
				if !s.inPlace {
					out = kernels.NewTensor(d, kernels.F32, s.rows, s.cols)
				}
				return build(x, y, out), []kernels.Tensor{out}
			},
		})
	}
	return list
}

// repeatedCases returns cases in which y is one row for all rows of x, which is also the output.
// yName ends their names.
func repeatedCases(name, yName string,
	build func(x, y, out kernels.Tensor) kernels.Op) []kernels.Case {
	var list []kernels.Case
	for _, s := range [][2]int{{1, 2048}, {33, 1030}, {512, 4096}} {
		list = append(list, kernels.Case{
			Name:  fmt.Sprintf("%s_f32_m%d_n%d_%s", name, s[0], s[1], yName),
			Bytes: int64(8*s[0]*s[1] + 4*s[1]),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				x := kernels.RandomTensor(d, r, s[0], s[1], 3)
				y := kernels.RandomTensor(d, r, 1, s[1], 3)
				return build(x, y.Repeat(s[0]), x), []kernels.Tensor{x}
			},
		})
	}
	return list
}

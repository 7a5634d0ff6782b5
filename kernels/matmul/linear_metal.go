package matmul

import (
	_ "embed"
	"fmt"
	"slices"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed linear.metal
var linearText string

//go:embed prefill.metal
var prefillText string

// variant selects a compiled kernel.
type variant struct {
	bits    int
	dtype   kernels.DType
	aligned bool
	rows    int // rows of x per threadgroup: 1 to 8, or tileRows
	gated   bool
	shards  int // of decode kernels: 1 or 2, see shardsOf; apart: 1, but x is not shared
}

const (
	fewRows  = 8
	tileRows = 32
	apart    = 3
)

// linearKernels has every variant. Each width of codes is a separate source, so a model compiles
// only what it uses.
var linearKernels = func() map[variant]*gpu.Kernel[linearParams] {
	all := map[variant]*gpu.Kernel[linearParams]{}
	for _, bits := range gpu.WeightBits {
		few, many := gpu.WeightSource("matmul/linear.metal", linearText, bits),
			gpu.WeightSource("matmul/prefill.metal", prefillText, bits)
		for _, dtype := range gpu.WeightDTypes(bits) {
			for _, aligned := range []bool{false, true} {
				constants := []metal.ConstantValue{{Name: "DTYPE", Value: uint32(dtype)},
					{Name: "ALIGNED", Value: aligned}}
				all[variant{bits, dtype, aligned, tileRows, false, 0}] =
					gpu.NewKernel[linearParams](many, "prefill", constants...)
				for rows := 1; rows <= fewRows; rows *= 2 {
					for _, shards := range []int{1, 2, apart} {
						add := func(name string, gated bool) {
							all[variant{bits, dtype, aligned, rows, gated, shards}] =
								gpu.NewKernel[linearParams](few, fmt.Sprintf(name, rows),
									append(slices.Clip(constants), metal.ConstantValue{
										Name: "SHARED", Value: shards == 1})...)
						}
						add("linear_%d", false)
						add("gate_up_%d", true)
					}
				}
			}
		}
	}
	return all
}()

// linearParams mirrors LinearParams in common/linear.h.
type linearParams struct {
	Rows, N, K, XStride, OutStride uint32
	DataFirst, DataStride          uint32
	ScalesFirst, ScalesStride      uint32
	BiasesFirst, BiasesStride      uint32
	UnitsPerGroup, PerInput        uint32
	Experts                        uint32
	FirstExpert, SomeExperts       uint32
	Choices, IDsStride             uint32
	UpDataFirst, UpDataStride      uint32
	UpScalesFirst, UpScalesStride  uint32
	UpBiasesFirst, UpBiasesStride  uint32
	Shards                         uint32
}

// A weight of few and long rows has too few threadgroups, so simdgroups share its rows.
const (
	fewColumns  = 4096 // rows of the weight, at most
	longColumns = 1024 // elements of a row, at least; a shard takes chunks of 256
)

// shardsOf returns the number of simdgroups that share a row. It depends on the weight alone,
// because the bits of a result depend on it.
func shardsOf(w *kernels.Weight) int {
	if w.N <= fewColumns && w.K >= longColumns {
		return 2
	}
	return 1
}

// launch holds the arguments of either kernel: rows of x times a part's weight.
type launch struct {
	x       kernels.Tensor
	part    Part            // Out: the rows of out to compute
	up      *kernels.Weight // of a gated product, whose gate is part.W; else nil
	choice  gpu.Operand     // buffer 5: expert ids, or the lists of experts_sort; else nothing
	experts uint32          // 0: one matrix
	choices uint32
	ids     uint32 // stride
	shared  int    // rows of out that share one of x
}

// Metal implements gpu.Op. Prefill rows use matrix units, all others the kernel for up to eight
// rows.
func (o *Linear) Metal(c *gpu.Context) {
	for _, part := range o.Parts {
		over := func(r Rows) launch {
			return launch{x: o.X.RowRange(r.From, r.To),
				part:   Part{W: part.W, Out: part.Out.RowRange(r.From, r.To)},
				choice: gpu.Read(kernels.Tensor{}), shared: 1}
		}
		o.Prefill.each(o.X.Rows,
			func(r Rows) { p := over(r); p.few(c) },
			func(r Rows) {
				p := over(r)
				p.dispatch(c, tileRows, (r.To-r.From+tileRows-1)/tileRows)
			})
	}
}

// few dispatches linear.metal.
func (p *launch) few(c *gpu.Context) {
	rows, n := 1, p.part.Out.Rows
	for p.experts == 0 && rows < fewRows && rows < n {
		rows *= 2
	}
	if rows > 1 {
		rows = min(rows, c.Choose(rowsTogether, p.shape(min(n, fewRows)), rows))
	}
	p.dispatch(c, rows, (n+rows-1)/rows)
}

// dispatch dispatches the kernel for a number of rows per threadgroup and a number of tiles of
// rows. A weight that does not lie in one Metal buffer takes several dispatches.
func (p *launch) dispatch(c *gpu.Context, rows, tiles int) {
	if tiles == 0 {
		return
	}
	for at := 0; at < p.part.W.Experts*p.part.W.N; {
		r := gpu.RangeFrom(at, p.part.W, p.up)
		p.dispatchRange(c, rows, tiles, r)
		at += r.Experts * r.Rows
	}
}

// dispatchRange computes the columns of out that belong to a range of the weight.
func (p *launch) dispatchRange(c *gpu.Context, rows, tiles int, r gpu.Range) {
	x, w := gpu.ReadMatrix(p.x), gpu.ReadWeight(p.part.W, r)
	out := p.part.Out.Columns(r.Row, r.Row+r.Rows)
	params := linearParams{
		Rows: uint32(out.Rows), N: uint32(out.Cols), K: uint32(p.x.Cols),
		XStride: uint32(p.x.Stride), OutStride: uint32(out.Stride),
		DataFirst: w.Data.First, DataStride: w.Data.Stride,
		ScalesFirst: w.Scales.First, ScalesStride: w.Scales.Stride,
		BiasesFirst: w.Biases.First, BiasesStride: w.Biases.Stride,
		UnitsPerGroup: w.UnitsPerGroup(), PerInput: uint32(p.shared),
		Experts: p.experts, FirstExpert: uint32(r.Expert), SomeExperts: uint32(r.Experts),
		Choices: p.choices, IDsStride: p.ids,
		Shards: uint32(shardsOf(p.part.W)),
	}
	columns := 16 / shardsOf(p.part.W) // per threadgroup
	if p.up != nil {
		columns /= 2
	}
	grid := gpu.Grid{Groups: metal.Size{X: (out.Cols + columns - 1) / columns, Y: tiles, Z: 1},
		Threads: metal.Size{X: 64, Y: 1, Z: 1}}
	if rows == tileRows {
		grid = gpu.Grid{Groups: metal.Size{X: tiles, Y: (out.Cols + 63) / 64, Z: 1},
			Threads: metal.Size{X: 128, Y: 1, Z: 1}}
	}
	if rows == tileRows {
		v := variant{w.Bits, w.DType, w.Aligned && x.Aligned(4, 16), rows, false, 0}
		linearKernels[v].Dispatch(c, params, grid,
			x.Operand, w.Data.Operand, w.Scales.Operand, w.Biases.Operand, p.choice, gpu.Write(out))
		return
	}
	aligned, up := w.Aligned && x.Aligned(4, 16), gpu.Weight{}
	if p.up != nil {
		up = gpu.ReadWeight(p.up, r)
		aligned = aligned && up.Aligned
		params.UpDataFirst, params.UpDataStride = up.Data.First, up.Data.Stride
		params.UpScalesFirst, params.UpScalesStride = up.Scales.First, up.Scales.Stride
		params.UpBiasesFirst, params.UpBiasesStride = up.Biases.First, up.Biases.Stride
	}
	form := shardsOf(p.part.W)
	if form == 1 && c.Choose(sharesX, p.shape(rows), 1) == 0 {
		form = apart
	}
	v := variant{w.Bits, w.DType, aligned, rows, p.up != nil, form}
	linearKernels[v].Dispatch(c, params, grid,
		x.Operand, w.Data.Operand, w.Scales.Operand, w.Biases.Operand, p.choice, gpu.Write(out),
		up.Data.Operand, up.Scales.Operand, up.Biases.Operand)
}

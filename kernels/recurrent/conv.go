package recurrent

// The short convolution before linear attention. What it remembers of a sequence is its last rows, kept per slot, so a prompt
// gives the same result in one span or in many.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Conv is a causal depthwise convolution along each span, followed by SiLU: for channel c of the row at position p,
//
//	out = silu(Σ_t Weight[c, t] * x[p-(T-1)+t, c])
//
// with x zero before position 0. T is the number of taps; tap T-1 multiplies the current row.
//
// X and Out are float32 [M, C] and must not overlap. Weight is contiguous float32 [C, T], 2 <= T <= MaxTaps. State is float32
// [slots, (T-1)*C]: the last T-1 rows of X of the sequence in a slot, oldest first. Rows outside every span are left as they are.
type Conv struct {
	X      kernels.Tensor
	Weight kernels.Tensor
	State  kernels.Tensor
	Spans  []kernels.Span
	Out    kernels.Tensor
}

// MaxTaps is the longest convolution.
const MaxTaps = 8

// convCols is the channels of one unit of work: the rows a unit looks back at stay in the first-level cache.
const convCols = 256

// Name implements kernels.Op.
func (o *Conv) Name() string { return "conv" }

// Check implements kernels.Op.
func (o *Conv) Check() error {
	m, c, taps := o.X.Rows, o.X.Cols, o.Weight.Cols
	err := errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, -1),
		kernels.CheckShape("weight", o.Weight, kernels.F32, c, -1),
		kernels.CheckShape("out", o.Out, kernels.F32, m, c),
		checkState(o.Spans, m, o.State, (taps-1)*c))
	if taps < 2 || taps > MaxTaps || !o.Weight.Contiguous() {
		err = errors.Join(err, fmt.Errorf("weight: got %s with stride %d, expected a contiguous one of 2 to %d taps", o.Weight, o.Weight.Stride, MaxTaps))
	}
	if o.Out.Buffer == o.X.Buffer && o.Out.Offset == o.X.Offset {
		err = errors.Join(err, errors.New("out: got x itself, expected memory of its own (rows look back at x)"))
	}
	return err
}

func (o *Conv) blocks() int { return (o.X.Cols + convCols - 1) / convCols }

// Reference implements kernels.Op.
func (o *Conv) Reference() { o.units(0, len(o.Spans)*o.blocks()) }

// units is the specification, and what runs in builds without cgo: unit u is a block of channels of span u / blocks.
func (o *Conv) units(from, to int) {
	cols, taps := o.X.Cols, o.Weight.Cols
	weight := o.Weight.Float32s()
	for u := from; u < to; u++ {
		span, first := o.Spans[u/o.blocks()], u%o.blocks()*convCols
		state, x, out := o.State.Row(int(span.Slot)), o.X.Float32s(), o.Out.Float32s()
		for c := first; c < min(first+convCols, cols); c++ {
			// input is channel c of row r of the span; rows before the span come from the state.
			input := func(r int) float32 {
				switch {
				case r >= 0:
					return x[(span.Row+r)*o.X.Stride+c]
				case span.Pos == 0:
					return 0
				}
				return state[(taps-1+r)*cols+c]
			}
			for r := range span.Rows {
				var sum float64
				for t := range taps {
					sum += float64(weight[c*taps+t]) * float64(input(r-(taps-1)+t))
				}
				out[(span.Row+r)*o.Out.Stride+c] = float32(sum / (1 + math.Exp(-sum)))
			}
			for t := range taps - 1 { // in ascending order a row is read before it is overwritten
				state[t*cols+c] = input(span.Rows - (taps - 1) + t)
			}
		}
	}
}

// CPU implements kernels.Op: channels of a span are independent.
func (o *Conv) CPU(c *cpu.Context) {
	if len(o.Spans) == 0 || o.X.Cols == 0 {
		return
	}
	rows := 0
	for _, s := range o.Spans {
		rows += s.Rows
	}
	perUnit := (rows/len(o.Spans) + 4) * min(o.X.Cols, convCols)
	c.Parallel(o, 0, len(o.Spans)*o.blocks(), 1+16384/perUnit)
}

// CPURange implements cpu.Task.
func (o *Conv) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		o.units(from, to)
		return
	}
	blocks := o.blocks()
	for u := from; u < to; { // the blocks of one span in one call
		end := min(to, (u/blocks+1)*blocks)
		o.native(c.ISA, o.Spans[u/blocks], u%blocks*convCols, min((end-1)%blocks*convCols+convCols, o.X.Cols))
		u = end
	}
}

func convCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		channels, taps int
		rows, pos      []int // of each span
	}{
		{20, 2, []int{1}, []int{0}},
		{100, 4, []int{3, 1, 2, 9}, []int{0, 5, 1, 64}},
		{259, 3, []int{7, 1}, []int{2, 0}},
		{8192, 4, []int{1}, []int{100}},
		{8192, 4, []int{1, 1, 1, 1}, []int{100, 7, 1, 0}},
		{8192, 4, []int{128}, []int{512}},
	} {
		spans, rows := spansOf(s.rows, s.pos)
		cases = append(cases, kernels.Case{
			Name:   fmt.Sprintf("conv_f32_c%d_t%d_rows%v_pos%v", s.channels, s.taps, s.rows, s.pos),
			AbsTol: 3e-6, RelTol: 1e-6,
			Why:   "a sum of up to 8 products of size up to 16 in float32 and v_exp within 2e-7, the reference is float64",
			Bytes: int64(4 * s.channels * (2*rows + s.taps + 2*(s.taps-1)*len(spans))),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Conv{
					X:      kernels.RandomTensor(d, r, rows, s.channels, 1),
					Weight: kernels.RandomTensor(d, r, s.channels, s.taps, 1),
					State:  kernels.RandomTensor(d, r, len(spans)+1, (s.taps-1)*s.channels, 1),
					Spans:  spans,
					Out:    kernels.NewTensor(d, kernels.F32, rows, s.channels),
				}
				return o, []kernels.Tensor{o.Out, o.State}
			},
		})
	}
	return cases
}

// spansOf lays spans of the given lengths and positions one after another; slots in reverse order, and slot 0 left alone.
func spansOf(rows, pos []int) ([]kernels.Span, int) {
	var spans []kernels.Span
	next := 0
	for i, n := range rows {
		spans = append(spans, kernels.Span{Row: next, Rows: n, Pos: pos[i], Slot: int32(len(rows) - i)})
		next += n
	}
	return spans, next
}

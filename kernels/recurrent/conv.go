package recurrent

// The short convolution before linear attention, and alone (LFM2). Its state is the last rows of a
// sequence.

import (
	"errors"
	"fmt"
	"math"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Conv is a causal depthwise convolution along each span, followed by SiLU: for channel c of the
// row at position p,
//
//	out = silu(Σ_t Weight[c, t] * x[p-(T-1)+t, c] + Bias[c])
//
// with x zero before position 0. T is the number of taps, and tap T-1 multiplies the current row.
// Earlier rows are rounded to the type of State first. If Linear is true, there is no SiLU.
//
// X and Out are float32 [M, C] and must not overlap. Weight is contiguous float32 [C, T], with
// 2 <= T <= MaxTaps, and Bias is float32 [1, C] or none. State is float32, bfloat16 or int8
// [slots, ConvStateCols]: a slot holds the last T-1 rows of X of its sequence, oldest first. Rows
// outside the spans are not written.
type Conv struct {
	X      kernels.Tensor
	Weight kernels.Tensor
	Bias   kernels.Tensor
	State  kernels.Tensor
	Spans  []kernels.Span
	Rounds []kernels.Round // optional: where states are kept; see rounds.go
	Out    kernels.Tensor
	Linear bool
}

// MaxTaps is the largest number of taps.
const MaxTaps = 8

// convCols is the number of channels of a unit of work. The earlier rows of that many channels stay
// in the L1 cache.
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
		o.layout().check(o.Spans, m, o.State),
		checkRounds(o.Spans, o.Rounds, m, o.State.Rows))
	if taps < 2 || taps > MaxTaps || !o.Weight.Contiguous() {
		err = errors.Join(err, fmt.Errorf(
			"weight: got %s with stride %d, expected a contiguous tensor of 2 to %d taps", o.Weight,
			o.Weight.Stride, MaxTaps))
	}
	if !o.Bias.IsNone() {
		err = errors.Join(err, kernels.CheckShape("bias", o.Bias, kernels.F32, 1, c))
	}
	if o.Out.Buffer == o.X.Buffer && o.Out.Offset == o.X.Offset {
		err = errors.Join(err, errors.New(
			"out: got the memory of x, expected other memory, because later rows read x again"))
	}
	return err
}

// layout returns the layout of State.
func (o *Conv) layout() stateLayout {
	return stateLayout{o.State.DType, o.Weight.Cols - 1, o.X.Cols, convGroup}
}

func (o *Conv) blocks() int { return (o.X.Cols + convCols - 1) / convCols }

// Reference implements kernels.Op.
func (o *Conv) Reference() {
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, o.Reference, o.State)
		return
	}
	o.units(0, len(o.Spans)*o.blocks())
}

// units computes units [from, to). Unit u is block u % blocks of the channels of span u / blocks.
// It is the specification, and builds without cgo run it.
func (o *Conv) units(from, to int) {
	for u := from; u < to; u++ {
		span, first := o.Spans[u/o.blocks()], u%o.blocks()*convCols
		o.block(span, slot(o.State, span.Slot), first, min(convCols, o.X.Cols-first))
	}
}

// block computes channels [first, first+n) of a span.
func (o *Conv) block(span kernels.Span, slot []byte, first, n int) {
	past, l, weight := o.Weight.Cols-1, o.layout(), o.Weight.Float32s()
	var bias [convCols]float32
	if !o.Bias.IsNone() {
		copy(bias[:n], o.Bias.Row(0)[first:])
	}
	// The rows before the current one, oldest first, rounded to the type of State.
	var before [MaxTaps - 1][convCols]float32
	for t := range past {
		if span.Pos == 0 {
			l.clear(slot, t, first, n)
		}
		load(l, before[t][:n], slot, t, first)
	}
	for r := range span.Rows {
		x, out := o.X.Row(span.Row + r)[first:][:n], o.Out.Row(span.Row + r)[first:][:n]
		for c := range n {
			taps := weight[(first+c)*(past+1):][:past+1]
			var sum float64
			for t := range past {
				sum += float64(taps[t]) * float64(before[t][c])
			}
			sum += float64(taps[past])*float64(x[c]) + float64(bias[c])
			if o.Linear {
				out[c] = float32(sum)
			} else {
				out[c] = float32(sum / (1 + math.Exp(-sum)))
			}
		}
		copy(before[:past-1], before[1:past])
		l.round(before[past-1][:n], x)
	}
	for t := range past { // in ascending order a row is read before it is overwritten
		if r := span.Rows - past + t; r >= 0 {
			store(l, slot, t, first, o.X.Row(span.Row + r)[first:][:n])
		} else {
			l.move(slot, t, r+past, first, n)
		}
	}
}

// CPU implements kernels.Op. The channels of a span are independent.
func (o *Conv) CPU(c *cpu.Context) {
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, func() { o.CPU(c) }, o.State)
		return
	}
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
		o.native(c.ISA, o.Spans[u/blocks], u%blocks*convCols,
			min((end-1)%blocks*convCols+convCols, o.X.Cols))
		u = end
	}
}

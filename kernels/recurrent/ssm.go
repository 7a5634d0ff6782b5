package recurrent

// The recurrence of Mamba-2. Like the gated delta rule it has a state of fixed size per head, and
// the tokens of a span are processed strictly in order.

import (
	"errors"
	"fmt"
	"math"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// SSM is the selective state space model of Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"), as
// transformers and mlx-lm compute it. Head h belongs to group h / (Heads/Groups) and has a state S
// [Dim, N]. For each token of a span, with x [Dim] of the head, and B and C [N] of the group:
//
//	dt  = min(max(softplus(Dt + DtBias), DtMin), DtMax)
//	S   = exp(-exp(ALog) * dt) * S + dt * x Bᵀ
//	out = S C + D * x
//
// Then S is rounded to the type of State. int8 has a scale per row of S.
//
// X is float32 [M, Heads*Dim + 2*Groups*N]; a row has x of all heads, then B of all groups, then C
// of all groups. Dt is float32 [M, Heads]. ALog, DtBias and D are float32 [1, Heads]. State is
// float32, bfloat16 or int8 [slots, StateCols] and holds [Heads, Dim, N]. Out is float32
// [M, Heads*Dim] and must not overlap the inputs. Rows outside the spans are not written.
type SSM struct {
	X      kernels.Tensor
	Dt     kernels.Tensor
	ALog   kernels.Tensor
	DtBias kernels.Tensor
	D      kernels.Tensor
	State  kernels.Tensor
	Spans  []kernels.Span
	Rounds []kernels.Round // optional: where states are kept; see rounds.go
	Out    kernels.Tensor

	Heads, Groups, Dim, N int
	DtMin, DtMax          float32 // finite
}

// Name implements kernels.Op.
func (o *SSM) Name() string { return "ssm" }

// Check implements kernels.Op.
func (o *SSM) Check() error {
	if o.Groups < 1 || o.Heads < 1 || o.Heads%o.Groups != 0 || o.Dim < 1 || o.N < 1 ||
		o.N > MaxKeyDim {
		return fmt.Errorf("heads: got %d heads of %d in %d groups, with states of %d columns, "+
			"expected at least one of each, a multiple of the groups as heads, and at most %d "+
			"columns", o.Heads, o.Dim, o.Groups, o.N, MaxKeyDim)
	}
	if !(o.DtMin >= 0 && o.DtMin <= o.DtMax && o.DtMax <= math.MaxFloat32) {
		return fmt.Errorf("dt: got limits %g and %g, expected finite ones in ascending order, and "+
			"none below 0", o.DtMin, o.DtMax)
	}
	m := o.X.Rows
	return errors.Join(
		kernels.CheckShape("x", o.X, kernels.F32, -1, o.Heads*o.Dim+2*o.Groups*o.N),
		kernels.CheckShape("dt", o.Dt, kernels.F32, m, o.Heads),
		kernels.CheckShape("a_log", o.ALog, kernels.F32, 1, o.Heads),
		kernels.CheckShape("dt_bias", o.DtBias, kernels.F32, 1, o.Heads),
		kernels.CheckShape("d", o.D, kernels.F32, 1, o.Heads),
		kernels.CheckShape("out", o.Out, kernels.F32, m, o.Heads*o.Dim),
		o.layout().check(o.Spans, m, o.State),
		checkRounds(o.Spans, o.Rounds, m, o.State.Rows))
}

// layout returns the layout of State.
func (o *SSM) layout() stateLayout { return o.layoutIn(o.State.DType) }

// layoutIn returns the layout of a State of type dtype.
func (o *SSM) layoutIn(dtype kernels.DType) stateLayout {
	return stateLayout{dtype, o.Heads * o.Dim, o.N, o.N}
}

// Reference implements kernels.Op. A float32 state is float64 within a span and rounded at its end.
func (o *SSM) Reference() {
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, o.Reference, o.State)
		return
	}
	state := make([]float64, o.Dim*o.N)
	for _, s := range o.Spans {
		for h := range o.Heads {
			o.clearIfFirst(s, h)
			if o.State.DType != kernels.F32 {
				ssmHead[float64](o, s, h, nil)
				continue
			}
			slot := o.float32Slot(s, h)
			for i, x := range slot {
				state[i] = float64(x)
			}
			ssmHead(o, s, h, state)
			for i, x := range state {
				slot[i] = float32(x)
			}
		}
	}
}

// clearIfFirst clears the state of head h if the span begins its sequence.
func (o *SSM) clearIfFirst(s kernels.Span, h int) {
	for i := 0; i < o.Dim && s.Pos == 0; i++ {
		o.layout().clear(slot(o.State, s.Slot), h*o.Dim+i, 0, o.N)
	}
}

// float32Slot returns the float32 state [Dim, N] of head h of the span's sequence.
func (o *SSM) float32Slot(s kernels.Span, h int) []float32 {
	return o.State.Row(int(s.Slot))[h*o.Dim*o.N:][:o.Dim*o.N]
}

// scalar computes head h of a span with the state in the slot. Builds without cgo run it.
func (o *SSM) scalar(s kernels.Span, h int) {
	o.clearIfFirst(s, h)
	if o.State.DType == kernels.F32 {
		ssmHead(o, s, h, o.float32Slot(s, h))
		return
	}
	ssmHead[float32](o, s, h, nil)
}

// ssmHead is the specification. It computes head h of a span with the given state [Dim, N]. If
// state is nil, each token reads its state from the slot and writes it back.
func ssmHead[F float32 | float64](o *SSM, s kernels.Span, h int, state []F) {
	var space [MaxKeyDim]F
	l, slot := o.layout(), slot(o.State, s.Slot)
	group := o.Heads*o.Dim + h/(o.Heads/o.Groups)*o.N
	for r := s.Row; r < s.Row+s.Rows; r++ {
		x := o.X.Row(r)
		b, c := x[group:][:o.N], x[group+o.Groups*o.N:][:o.N]
		x, out := x[h*o.Dim:][:o.Dim], o.Out.Row(r)[h*o.Dim:]
		decay, dt := o.step(o.Dt.Row(r)[h], h)
		for i := range o.Dim {
			row := space[:o.N]
			if state != nil {
				row = state[i*o.N:][:o.N]
			} else {
				load(l, row, slot, h*o.Dim+i, 0)
			}
			var sum F
			for j := range row {
				row[j] = F(decay)*row[j] + F(dt)*F(x[i])*F(b[j])
				sum += row[j] * F(c[j])
			}
			out[i] = float32(sum + F(o.D.Row(0)[h])*F(x[i]))
			if state == nil {
				store(l, slot, h*o.Dim+i, 0, row)
			}
		}
	}
}

// step returns the decay and the step dt of head h for one token.
func (o *SSM) step(dt float32, h int) (decay, step float64) {
	x := float64(dt) + float64(o.DtBias.Row(0)[h])
	step = min(max(softplus(x), float64(o.DtMin)), float64(o.DtMax))
	return math.Exp(-math.Exp(float64(o.ALog.Row(0)[h])) * step), step
}

// ssmGrain is the least work of a call in elements of the state, times tokens: about 10 µs.
const ssmGrain = 1 << 17

// CPU implements kernels.Op. A unit of work is all tokens of a span for one head.
func (o *SSM) CPU(c *cpu.Context) {
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, func() { o.CPU(c) }, o.State)
		return
	}
	if len(o.Spans) == 0 {
		return
	}
	tokens := 0
	for _, s := range o.Spans {
		tokens += s.Rows
	}
	work := (tokens/len(o.Spans) + 1) * o.Dim * o.N
	c.Parallel(o, 0, len(o.Spans)*o.Heads, 1+ssmGrain/work)
}

// CPURange implements cpu.Task.
func (o *SSM) CPURange(c *cpu.Context, _, _, from, to int) {
	if c.ISA == cpu.Generic {
		for u := from; u < to; u++ {
			o.scalar(o.Spans[u/o.Heads], u%o.Heads)
		}
		return
	}
	for u := from; u < to; { // the heads of one span in one call
		end := min(to, (u/o.Heads+1)*o.Heads)
		o.nativeHeads(c.ISA, o.Spans[u/o.Heads], u%o.Heads, (end-1)%o.Heads+1)
		u = end
	}
}

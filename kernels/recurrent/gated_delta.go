package recurrent

// The recurrence of linear attention. A state of fixed size per head replaces a growing KV cache.
// The tokens of a span are processed strictly in order. Heads and rows of the state are
// independent, so threads share those.

import (
	"errors"
	"fmt"
	"math"

	"headroom/kernels"
)

// GatedDelta is the gated delta rule (Yang et al. 2024, "Gated Delta Networks") with normalized q
// and k, as transformers and mlx-lm compute it. Value head h uses key head h / (Hv/Hk) and has a
// state S [Dv, Dk]. For each token of a span:
//
//	q    = l2norm(q) / sqrt(Dk)      l2norm(x) = x / sqrt(sum(x²) + 1e-6)
//	k    = l2norm(k)
//	g    = exp(-exp(ALog) * softplus(a + DtBias))
//	beta = sigmoid(b)
//	S    = g * S
//	S   += beta * (v - S k) kᵀ
//	out  = S q
//
// Then S is rounded to the type of State. int8 has a scale per value row.
//
// QKV is float32 [M, 2*Hk*Dk + Hv*Dv]; a row has q of all key heads, then k of all key heads, then
// v of all value heads. A and B are float32 [M, Hv]. ALog and DtBias are float32 [1, Hv]. State is
// float32, bfloat16 or int8 [slots, StateCols] and holds [Hv, Dv, Dk]. Out is float32 [M,
// Hv*Dv] and must not overlap the inputs. Rows outside the spans are not written.
type GatedDelta struct {
	QKV    kernels.Tensor
	A, B   kernels.Tensor
	ALog   kernels.Tensor
	DtBias kernels.Tensor
	State  kernels.Tensor
	Spans  []kernels.Span
	Rounds []kernels.Round // optional: where states are kept; see rounds.go
	Out    kernels.Tensor

	Hk, Hv, Dk, Dv int

	// State of the current CPU call.
	conv            *Conv // computes QKV first, if not nil (ConvGatedDelta)
	parts, partRows int   // the value rows of a key head are split into parts of partRows rows
}

// MaxKeyDim is the largest Dk.
const MaxKeyDim = 256

// l2Eps is added to the sum of the squares of q and of k.
const l2Eps = 1e-6

// Name implements kernels.Op.
func (o *GatedDelta) Name() string { return "gated_delta" }

// Check implements kernels.Op.
func (o *GatedDelta) Check() error {
	if o.Hk < 1 || o.Hv < 1 || o.Hv%o.Hk != 0 || o.Dk < 1 || o.Dk > MaxKeyDim || o.Dv < 1 {
		return fmt.Errorf(
			"heads: got %d key heads of %d dimensions and %d value heads of %d, expected at least "+
				"one of each, a multiple of the key heads as value heads, and at most %d "+
				"dimensions of a key head",
			o.Hk, o.Dk, o.Hv, o.Dv, MaxKeyDim)
	}
	m := o.QKV.Rows
	return errors.Join(
		kernels.CheckShape("qkv", o.QKV, kernels.F32, -1, 2*o.Hk*o.Dk+o.Hv*o.Dv),
		kernels.CheckShape("a", o.A, kernels.F32, m, o.Hv),
		kernels.CheckShape("b", o.B, kernels.F32, m, o.Hv),
		kernels.CheckShape("a_log", o.ALog, kernels.F32, 1, o.Hv),
		kernels.CheckShape("dt_bias", o.DtBias, kernels.F32, 1, o.Hv),
		kernels.CheckShape("out", o.Out, kernels.F32, m, o.Hv*o.Dv),
		o.layout().check(o.Spans, m, o.State),
		checkRounds(o.Spans, o.Rounds, m, o.State.Rows))
}

// layout returns the layout of State.
func (o *GatedDelta) layout() stateLayout {
	return stateLayout{o.State.DType, o.Hv * o.Dv, o.Dk, o.Dk}
}

// Reference implements kernels.Op. A float32 state is float64 within a span and rounded at its end.
func (o *GatedDelta) Reference() {
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, o.Reference, o.State)
		return
	}
	state := make([]float64, o.Dv*o.Dk)
	for _, s := range o.Spans {
		for h := range o.Hv {
			o.clearIfFirst(s, h)
			if o.State.DType != kernels.F32 {
				scalarHead[float64](o, s, h, nil)
				continue
			}
			slot := o.float32Slot(s, h)
			for i, x := range slot {
				state[i] = float64(x)
			}
			scalarHead(o, s, h, state)
			for i, x := range state {
				slot[i] = float32(x)
			}
		}
	}
}

// clearIfFirst clears the state of value head h if the span begins its sequence.
func (o *GatedDelta) clearIfFirst(s kernels.Span, h int) {
	if s.Pos == 0 {
		for i := range o.Dv {
			o.layout().clear(slot(o.State, s.Slot), h*o.Dv+i, 0, o.Dk)
		}
	}
}

// float32Slot returns the float32 state [Dv, Dk] of value head h of the span's sequence.
func (o *GatedDelta) float32Slot(s kernels.Span, h int) []float32 {
	return o.State.Row(int(s.Slot))[h*o.Dv*o.Dk:][:o.Dv*o.Dk]
}

// scalar computes value head h of a span with the state in the slot. Builds without cgo run it.
func (o *GatedDelta) scalar(s kernels.Span, h int) {
	o.clearIfFirst(s, h)
	if o.State.DType == kernels.F32 {
		scalarHead(o, s, h, o.float32Slot(s, h))
		return
	}
	scalarHead[float32](o, s, h, nil)
}

// scalarHead is the specification. It computes value head h of a span with the given state [Dv,
// Dk]. If state is nil, each token reads its state from the slot and writes it back.
func scalarHead[F float32 | float64](o *GatedDelta, s kernels.Span, h int, state []F) {
	var qSpace, kSpace, rowSpace [MaxKeyDim]F
	q, k, l := qSpace[:o.Dk], kSpace[:o.Dk], o.layout()
	keyHead, slot := h/(o.Hv/o.Hk), slot(o.State, s.Slot)
	for r := s.Row; r < s.Row+s.Rows; r++ {
		x, out := o.QKV.Row(r), o.Out.Row(r)[h*o.Dv:]
		normalize(q, x[keyHead*o.Dk:], 1/math.Sqrt(float64(o.Dk)))
		normalize(k, x[(o.Hk+keyHead)*o.Dk:], 1)
		v := x[2*o.Hk*o.Dk+h*o.Dv:]
		g, beta := gates(o.A.Row(r)[h], o.B.Row(r)[h], o.ALog.Row(0)[h], o.DtBias.Row(0)[h])
		for i := range o.Dv {
			if state != nil {
				out[i] = float32(scalarStep(state[i*o.Dk:][:o.Dk], q, k, F(v[i]), F(g), F(beta)))
				continue
			}
			row := rowSpace[:o.Dk]
			load(l, row, slot, h*o.Dv+i, 0)
			out[i] = float32(scalarStep(row, q, k, F(v[i]), F(g), F(beta)))
			store(l, slot, h*o.Dv+i, 0, row)
		}
	}
}

// scalarStep updates one row of the state for one token and returns the token's output.
func scalarStep[F float32 | float64](row, q, k []F, v, g, beta F) F {
	var predicted, out F
	for j := range row {
		row[j] *= g
		predicted += row[j] * k[j]
	}
	d := (v - predicted) * beta
	for j := range row {
		row[j] += d * k[j]
		out += row[j] * q[j]
	}
	return out
}

// normalize sets out to l2norm(x[:len(out)]) * scale.
func normalize[F float32 | float64](out []F, x []float32, scale float64) {
	var squares float64
	for _, v := range x[:len(out)] {
		squares += float64(v) * float64(v)
	}
	scale /= math.Sqrt(squares + l2Eps)
	for i := range out {
		out[i] = F(float64(x[i]) * scale)
	}
}

// gates returns the decay g and the step beta of one value head for one token.
func gates(a, b, aLog, dtBias float32) (g, beta float64) {
	x := float64(a) + float64(dtBias)
	return math.Exp(-math.Exp(float64(aLog)) * softplus(x)), 1 / (1 + math.Exp(-float64(b)))
}

// softplus returns log(1 + e^x) without overflow.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

package recurrent

// Linear attention's recurrence: a state of fixed size per head takes the place of a cache that
// grows. Tokens of a span go through it strictly in order; heads and rows of the state are
// independent, and the work is divided by them.

import (
	"errors"
	"fmt"
	"math"

	"headroom/kernels"
)

// GatedDelta is the gated delta rule (Yang et al. 2024, "Gated Delta Networks"), in the form of
// mlx-lm's gated_delta.py. For each token of a span, value head h with its state S [Dv, Dk],
// reading key head h / (Hv/Hk), as it is kept after the token before:
//
//	q    = rmsnorm(q) / Dk           rmsnorm(x) = x / sqrt(mean(x²) + 1e-6)
//	k    = rmsnorm(k) / sqrt(Dk)
//	g    = exp(-exp(ALog) * softplus(a + DtBias))
//	beta = sigmoid(b)
//	S    = g * S
//	S   += beta * (v - S k) kᵀ
//	out  = S q
//
// Then S is rounded to the form of State, a scale per value row where that is int8.
//
// QKV is float32 [M, 2*Hk*Dk + Hv*Dv], each row q of every key head, then k, then v; A and B are
// float32 [M, Hv]; ALog and DtBias are float32 [1, Hv]. State is float32, bfloat16 or int8 [slots,
// GatedDeltaStateCols] and holds [Hv, Dv, Dk]. Out is float32 [M, Hv*Dv] and must not overlap the
// inputs. Rows outside every span are left as they are.
type GatedDelta struct {
	QKV    kernels.Tensor
	A, B   kernels.Tensor
	ALog   kernels.Tensor
	DtBias kernels.Tensor
	State  kernels.Tensor
	Spans  []kernels.Span
	Out    kernels.Tensor

	Hk, Hv, Dk, Dv int

	// Of the CPU pass under way: a convolution that comes first, its input in place of QKV
	// (ConvGatedDelta), and the parts of a key head's value rows.
	conv            *Conv
	parts, partRows int
}

// MaxKeyDim is the largest Dk.
const MaxKeyDim = 256

const rmsEps = 1e-6

// Name implements kernels.Op.
func (o *GatedDelta) Name() string { return "gated_delta" }

// Check implements kernels.Op.
func (o *GatedDelta) Check() error {
	if o.Hk < 1 || o.Hv < 1 || o.Hv%o.Hk != 0 || o.Dk < 1 || o.Dk > MaxKeyDim || o.Dv < 1 {
		return fmt.Errorf(
			"heads: got %d key heads of %d, %d value heads of %d, expected at least one, value "+
				"heads a multiple of key heads, key heads of at most %d",
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
		o.kept().check(o.Spans, m, o.State))
}

// kept is the layout of State.
func (o *GatedDelta) kept() layout { return layout{o.State.DType, o.Hv * o.Dv, o.Dk, o.Dk} }

// Reference implements kernels.Op. A state kept in float32 is carried through a span in float64 and
// rounded at the end.
func (o *GatedDelta) Reference() {
	state := make([]float64, o.Dv*o.Dk)
	for _, s := range o.Spans {
		for h := range o.Hv {
			o.start(s, h)
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

// start clears the state of value head h of the span's sequence if the span begins it.
func (o *GatedDelta) start(s kernels.Span, h int) {
	if s.Pos == 0 {
		for i := range o.Dv {
			o.kept().clear(slot(o.State, s.Slot), h*o.Dv+i, 0, o.Dk)
		}
	}
}

// float32Slot is a state in float32 of value head h of the span's sequence, [Dv, Dk].
func (o *GatedDelta) float32Slot(s kernels.Span, h int) []float32 {
	return o.State.Row(int(s.Slot))[h*o.Dv*o.Dk:][:o.Dv*o.Dk]
}

// scalar passes the span's tokens through value head h's state in the slot: what runs in builds
// without cgo.
func (o *GatedDelta) scalar(s kernels.Span, h int) {
	o.start(s, h)
	if o.State.DType == kernels.F32 {
		scalarHead(o, s, h, o.float32Slot(s, h))
		return
	}
	scalarHead[float32](o, s, h, nil)
}

// scalarHead is the specification: it passes the span's tokens through one value head's state [Dv,
// Dk]; nil means the one in the slot, which each token then takes up and puts down.
func scalarHead[F float32 | float64](o *GatedDelta, s kernels.Span, h int, state []F) {
	var qSpace, kSpace, rowSpace [MaxKeyDim]F
	q, k, kept := qSpace[:o.Dk], kSpace[:o.Dk], o.kept()
	keyHead, slot := h/(o.Hv/o.Hk), slot(o.State, s.Slot)
	for r := s.Row; r < s.Row+s.Rows; r++ {
		x, out := o.QKV.Row(r), o.Out.Row(r)[h*o.Dv:]
		normalize(q, x[keyHead*o.Dk:], 1/float64(o.Dk))
		normalize(k, x[(o.Hk+keyHead)*o.Dk:], 1/math.Sqrt(float64(o.Dk)))
		v := x[2*o.Hk*o.Dk+h*o.Dv:]
		g, beta := gates(o.A.Row(r)[h], o.B.Row(r)[h], o.ALog.Row(0)[h], o.DtBias.Row(0)[h])
		for i := range o.Dv {
			if state != nil {
				out[i] = float32(scalarStep(state[i*o.Dk:][:o.Dk], q, k, F(v[i]), F(g), F(beta)))
				continue
			}
			row := rowSpace[:o.Dk]
			load(kept, row, slot, h*o.Dv+i, 0)
			out[i] = float32(scalarStep(row, q, k, F(v[i]), F(g), F(beta)))
			store(kept, slot, h*o.Dv+i, 0, row)
		}
	}
}

// scalarStep passes one token through one row of the state and returns its output.
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

// normalize sets out to rmsnorm(x[:len(out)]) * scale.
func normalize[F float32 | float64](out []F, x []float32, scale float64) {
	var squares float64
	for _, v := range x[:len(out)] {
		squares += float64(v) * float64(v)
	}
	scale /= math.Sqrt(squares/float64(len(out)) + rmsEps)
	for i := range out {
		out[i] = F(float64(x[i]) * scale)
	}
}

// gates returns the decay g and the step beta of one value head for one token.
func gates(a, b, aLog, dtBias float32) (g, beta float64) {
	x := float64(a) + float64(dtBias)
	softplus := max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) // log(1 + e^x) without overflow
	return math.Exp(-math.Exp(float64(aLog)) * softplus), 1 / (1 + math.Exp(-float64(b)))
}

package recurrent

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"headroom/kernels"
)

// TestSSMByHand has two heads with Dim = 1 and N = 2, in one group. ALog = 0, and Dt + DtBias = 0
// gives dt = log 2 = 0.6931472 and a decay of exp(-log 2) = 1/2. The second head has the limits of
// dt as its Dt is far below: dt = 0.5, and ALog = log(2 log 2) makes its decay exp(-log 2) = 1/2.
//
// Token 1: x = (1, 2), B = (1, -2), C = (3, 1), S = ((2, 4), (0, 0)).
//
//	head 1: S = (1, 2) + 0.6931472 (1, -2)     = (1.6931472, 0.6137056)
//	        out = 3*1.6931472 + 0.6137056 + 10*1 = 15.6931472
//	head 2: S = 0.5 * 2 * (1, -2) = (1, -2);  out = 3 - 2 + 100*2 = 201
//
// Token 2: x = (0, 1), B = (2, 0), C = (1, 1).
//
//	head 1: S = (0.8465736, 0.3068528);       out = 1.1534264
//	head 2: S = (0.5, -1) + 0.5 * (2, 0)     = (1.5, -1);  out = 0.5 + 100 = 100.5
func TestSSMByHand(t *testing.T) {
	for name, d := range devices(t) {
		two := func(x, y float32) kernels.Tensor {
			return kernels.FromFloat32s(d, 1, 2, []float32{x, y})
		}
		o := SSM{
			X:    kernels.FromFloat32s(d, 2, 6, []float32{1, 2, 1, -2, 3, 1, 0, 1, 2, 0, 1, 1}),
			Dt:   kernels.FromFloat32s(d, 2, 2, []float32{-2, -50, -2, -50}),
			ALog: two(0, float32(math.Log(2*math.Ln2))), DtBias: two(2, 0), D: two(10, 100),
			State: kernels.FromFloat32s(d, 1, 4, []float32{2, 4, 0, 0}),
			Spans: []kernels.Span{{Rows: 2, Pos: 1}},
			Out:   kernels.NewTensor(d, kernels.F32, 2, 2),
			Heads: 2, Groups: 1, Dim: 1, N: 2, DtMin: 0.5, DtMax: 0.7,
		}
		d.Run(&o)
		expect(t, name, o.Out.Float32s(), []float32{15.6931472, 201, 1.1534264, 100.5})
		expect(t, name+": state", o.State.Float32s(), []float32{0.8465736, 0.3068528, 1.5, -1})
	}
}

// TestSSMGroups checks which B and C a head reads. With four heads in two groups, B = 1 and C = 1
// for the first group, and B = 10 and C = 100 for the second. dt is limited to 1.
func TestSSMGroups(t *testing.T) {
	for name, d := range devices(t) {
		four := func(x float32) kernels.Tensor {
			return kernels.FromFloat32s(d, 1, 4, []float32{x, x, x, x})
		}
		o := SSM{
			X:  kernels.FromFloat32s(d, 1, 8, []float32{1, 2, 3, 4, 1, 10, 1, 100}),
			Dt: four(50), ALog: four(0), DtBias: four(0), D: four(0),
			State: kernels.NewTensor(d, kernels.F32, 1, 4), Spans: []kernels.Span{{Rows: 1}},
			Out:   kernels.NewTensor(d, kernels.F32, 1, 4),
			Heads: 4, Groups: 2, Dim: 1, N: 1, DtMin: 0, DtMax: 1,
		}
		d.Run(&o)
		expect(t, name, o.Out.Float32s(), []float32{1, 2, 3000, 4000})
		expect(t, name+": state", o.State.Float32s(), []float32{1, 2, 30, 40})
	}
}

// TestSSMSteps checks dt and the decay over the whole range of their inputs. A state of ones
// becomes the decay after a token with x = 0, and B = C = 1 give dt as the output of x = 1.
func TestSSMSteps(t *testing.T) {
	for name, d := range devices(t) {
		for _, raw := range []float32{-80, -20, -3, -1e-3, 0, 0.5, 4, 30, 85} {
			for _, aLog := range []float32{-6, 0, 1.5} {
				one := func(x ...float32) kernels.Tensor {
					return kernels.FromFloat32s(d, 1, len(x), x)
				}
				run := func(x, state float32) (out, after float64) {
					o := SSM{X: one(x, 1, 1), Dt: one(raw), ALog: one(aLog), DtBias: one(0),
						D: one(0), State: one(state), Spans: []kernels.Span{{Rows: 1, Pos: 1}},
						Out: kernels.NewTensor(d, kernels.F32, 1, 1), Heads: 1, Groups: 1, Dim: 1,
						N: 1, DtMin: 1e-3, DtMax: 20}
					d.Run(&o)
					return float64(o.Out.Float32s()[0]), float64(o.State.Float32s()[0])
				}
				dt := min(max(math.Log1p(math.Exp(float64(raw))), float64(float32(1e-3))), 20)
				rate := math.Exp(float64(aLog)) * dt
				_, decay := run(0, 1)
				// v_exp never returns less than e^-87.
				if want := math.Exp(-rate); math.Abs(decay-want) > want*(4e-7+4e-7*rate)+2e-38 {
					t.Errorf("%s: dt %g, a_log %g: got the decay %g, expected %g", name, raw, aLog,
						decay, want)
				}
				if got, _ := run(1, 0); math.Abs(got-dt) > 4e-7*dt {
					t.Errorf("%s: got dt %g of %g, expected %g", name, got, raw, dt)
				}
			}
		}
	}
}

// TestSSMStateIsRoundedWithinSpan checks that a token reads the rounded state of the previous
// token, also within a span, and that its output comes from the state before it is rounded. dt is 1
// and the decay 1, as ALog is low. S is 1 + 2^-9 after the first token, which is 1 in bfloat16, and
// the second token has x = 0.
func TestSSMStateIsRoundedWithinSpan(t *testing.T) {
	for name, d := range devices(t) {
		one := func(x ...float32) kernels.Tensor { return kernels.FromFloat32s(d, len(x), 1, x) }
		o := SSM{
			X:  kernels.FromFloat32s(d, 2, 3, []float32{1 + 0x1p-9, 1, 1, 0, 1, 1}),
			Dt: one(0, 0), ALog: one(-80), DtBias: one(0), D: one(0),
			State: kernels.NewTensor(d, kernels.BF16, 1, 1), Spans: []kernels.Span{{Rows: 2}},
			Out:   kernels.NewTensor(d, kernels.F32, 2, 1),
			Heads: 1, Groups: 1, Dim: 1, N: 1, DtMin: 1, DtMax: 1,
		}
		d.Run(&o)
		expect(t, name, o.Out.Float32s(), []float32{1 + 0x1p-9, 1})
	}
}

// TestKeptSSMStates compares every device's final state with the reference's, as TestKeptStates
// does.
func TestKeptSSMStates(t *testing.T) {
	shape := ssmShape{heads: 4, groups: 2, dim: 37, n: 40}
	for _, dtype := range []kernels.DType{kernels.BF16, kernels.I8} {
		compareStates(t, dtype, func(d kernels.Device, r *rand.Rand) (kernels.Op, kernels.Tensor,
			stateLayout) {
			o := shape.op(d, r, 5)
			l := o.layoutIn(dtype)
			o.State, o.Spans = randomState(d, r, 1, l, 0.3), []kernels.Span{{Rows: 5, Pos: 9}}
			return o, o.State, l
		})
	}
}

func TestCheckSSM(t *testing.T) {
	d := kernels.NewDryRun()
	tensor := func(rows, cols int) kernels.Tensor {
		return kernels.NewTensor(d, kernels.F32, rows, cols)
	}
	for _, c := range []struct {
		change func(*SSM)
		want   string // part of the error, "" for none
	}{
		{func(*SSM) {}, ""},
		{func(o *SSM) { o.State = kernels.NewTensor(d, kernels.I8, 2, 12*(4+8)) }, ""},
		{func(o *SSM) { o.State = tensor(2, 95) }, "state"},
		{func(o *SSM) { o.N = 257 }, "at most 256"},
		{func(o *SSM) { o.Groups = 3 }, "a multiple of the groups"},
		{func(o *SSM) { o.Groups = 0 }, "at least one of each"},
		{func(o *SSM) { o.X = tensor(4, 43) }, "x: got"},
		{func(o *SSM) { o.Dt = tensor(3, 4) }, "dt: got"},
		{func(o *SSM) { o.D = kernels.Tensor{} }, "d: got none"},
		{func(o *SSM) { o.Spans[0].Slot = 9 }, "slot 9"},
		{func(o *SSM) { o.DtMax = float32(math.Inf(1)) }, "got limits 0 and +Inf"},
		{func(o *SSM) { o.DtMin, o.DtMax = 2, 1 }, "in ascending order"},
		{func(o *SSM) { o.DtMin = float32(math.NaN()) }, "got limits NaN"},
	} {
		o := &SSM{X: tensor(4, 12+2*2*8), Dt: tensor(4, 4), ALog: tensor(1, 4),
			DtBias: tensor(1, 4), D: tensor(1, 4), State: tensor(2, 12*8),
			Spans: []kernels.Span{{Rows: 4}}, Out: tensor(4, 12), Heads: 4, Groups: 2, Dim: 3,
			N: 8, DtMax: 1}
		c.change(o)
		err := o.Check()
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got error %v, expected one with %q", err, c.want)
		}
	}
}

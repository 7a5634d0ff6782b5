package recurrent

import (
	"math"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }

// BenchmarkNV times the cases, and one token of each of many sequences.
func BenchmarkNV(b *testing.B) { kerneltest.BenchNV(b, LargeTimings()) }

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

// synced is a device whose Run returns when the operator has finished.
type synced struct{ kernels.Device }

func (d synced) Run(op kernels.Op) {
	d.Device.Run(op)
	if err := d.Sync(); err != nil {
		panic(err)
	}
}

// devices returns the reference, the CPU with every instruction set, and a simulated Metal device
// if there is one.
func devices(t *testing.T) map[string]kernels.Device {
	list := map[string]kernels.Device{"reference": kernels.NewReference()}
	for _, isa := range cpu.Available() {
		list[isa.String()] = kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2})
	}
	t.Cleanup(func() {
		for name, d := range list {
			if name != "Metal" { // kerneltest.Metal closes it
				d.Close()
			}
		}
	})
	if kerneltest.HasMetal() {
		list["Metal"] = synced{kerneltest.Metal(t)}
	}
	return list
}

func expect(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 2e-6*math.Abs(float64(want[i]))+2e-6 {
			t.Errorf("%s: got %v, expected %v", what, got, want)
			return
		}
	}
}

// TestConvByHand has one channel, taps 1, 10, 100 and inputs 1, 2, 3. The sums are so large that
// silu does not change them:
//
//	position 0: 100*1            = 100    state 0 1
//	position 1: 10*1 + 100*2     = 210    state 1 2
//	position 2: 1 + 10*2 + 100*3 = 321    state 2 3
func TestConvByHand(t *testing.T) {
	for name, d := range devices(t) {
		// garbage that position 0 must not see
		state := kernels.FromFloat32s(d, 1, 2, []float32{7, 7})
		out := kernels.NewTensor(d, kernels.F32, 3, 1)
		o := Conv{X: kernels.FromFloat32s(d, 3, 1, []float32{1, 2, 3}),
			Weight: kernels.FromFloat32s(d, 1, 3, []float32{1, 10, 100}), State: state, Out: out}
		o.Spans = []kernels.Span{{Row: 0, Rows: 1, Pos: 0}}
		d.Run(&o)
		expect(t, name+": state after one token", state.Float32s(), []float32{0, 1})
		o.Spans = []kernels.Span{{Row: 1, Rows: 2, Pos: 1}}
		d.Run(&o)
		expect(t, name+": state after three", state.Float32s(), []float32{2, 3})
		expect(t, name, out.Float32s(), []float32{100, 210, 321})
	}
}

// TestLinearConvByHand has taps 1, 10, -100 and inputs 1, 2, 3. SiLU would make the sums 0.
func TestLinearConvByHand(t *testing.T) {
	for name, d := range devices(t) {
		out := kernels.NewTensor(d, kernels.F32, 3, 1)
		o := Conv{X: kernels.FromFloat32s(d, 3, 1, []float32{1, 2, 3}),
			Weight: kernels.FromFloat32s(d, 1, 3, []float32{1, 10, -100}),
			State:  kernels.FromFloat32s(d, 1, 2, []float32{7, 7}),
			Spans:  []kernels.Span{{Rows: 3}}, Out: out, Linear: true}
		d.Run(&o)
		expect(t, name, out.Float32s(), []float32{-100, -190, -279})
	}
}

// TestBiasedConvByHand is TestConvByHand with a bias of 1000, which the state does not see.
func TestBiasedConvByHand(t *testing.T) {
	for name, d := range devices(t) {
		out := kernels.NewTensor(d, kernels.F32, 3, 1)
		o := Conv{X: kernels.FromFloat32s(d, 3, 1, []float32{1, 2, 3}),
			Weight: kernels.FromFloat32s(d, 1, 3, []float32{1, 10, 100}),
			Bias:   kernels.FromFloat32s(d, 1, 1, []float32{1000}),
			State:  kernels.FromFloat32s(d, 1, 2, []float32{7, 7}),
			Spans:  []kernels.Span{{Rows: 3}}, Out: out}
		d.Run(&o)
		expect(t, name, out.Float32s(), []float32{1100, 1210, 1321})
		expect(t, name+": state", o.State.Float32s(), []float32{2, 3})
	}
}

// TestGatedDeltaByHand has one head with Dk = Dv = 2. a = b = 0 and ALog = DtBias = 0 give g =
// exp(-log 2) = 1/2 and beta = 1/2. k = (1, 1) becomes (1, 1)/√2 = (c, c) with c = 0.70710678.
//
// Token 1: q = (2, -2) becomes (1, -1)/2; v = (1, 2); S = ((2, 0), (0, 4)).
//
//	g S  = ((1, 0), (0, 2));   S k = (c, 2c)
//	d    = ((1 - c)/2, (2 - 2c)/2)   = (0.14644661, 0.29289322)
//	S    = g S + d (c, c)            = ((1.1035534, 0.1035534), (0.2071068, 2.2071068))
//	out  = ((1.1035534 - 0.1035534)/2, (0.2071068 - 2.2071068)/2) = (0.5, -1)
//
// Token 2: q = (1, 1) becomes (1, 1)/2; v = 0.
//
//	g S  = ((0.5517767, 0.0517767), (0.1035534, 1.1035534));   S k = (0.4267767, 0.8535534)
//	d    = (-0.21338835, -0.4267767)
//	S    = ((0.4008883, -0.0991117), (-0.1982233, 0.8017767))
//	out  = (0.3017767/2, 0.6035534/2) = (0.1508883, 0.3017767)
func TestGatedDeltaByHand(t *testing.T) {
	for name, d := range devices(t) {
		zeros := kernels.NewTensor(d, kernels.F32, 2, 1)
		o := GatedDelta{
			QKV: kernels.FromFloat32s(d, 2, 6, []float32{2, -2, 1, 1, 1, 2, 1, 1, 1, 1, 0, 0}),
			A:   zeros, B: zeros, ALog: zeros.RowRange(0, 1), DtBias: zeros.RowRange(0, 1),
			State: kernels.FromFloat32s(d, 1, 4, []float32{2, 0, 0, 4}),
			Spans: []kernels.Span{{Row: 0, Rows: 2, Pos: 5}},
			Out:   kernels.NewTensor(d, kernels.F32, 2, 2),
			Hk:    1, Hv: 1, Dk: 2, Dv: 2,
		}
		d.Run(&o)
		expect(t, name, o.Out.Float32s(), []float32{0.5, -1, 0.1508883, 0.3017767})
		expect(t, name+": state", o.State.Float32s(),
			[]float32{0.4008883, -0.0991117, -0.1982233, 0.8017767})
	}
}

// TestL2NormByHand has q and k so small that the epsilon counts. All four elements are 0.0005, so
// the sum of squares is 1e-6 and l2norm(x) = x / sqrt(1e-6 + 1e-6) = x * 707.10678. The epsilon
// added to the mean of squares would give 0.05 instead of 0.125. g does not matter, and beta = 1/2.
//
//	k   = 0.35355339 each;   q = 0.35355339 / sqrt(4) = 0.1767767 each;   v = 1
//	S   = 0 + 1/2 * 1 * k    = 0.1767767 each
//	out = 4 * 0.1767767²     = 0.125
func TestL2NormByHand(t *testing.T) {
	const x = 0.0005
	for name, d := range devices(t) {
		zero := kernels.NewTensor(d, kernels.F32, 1, 1)
		o := GatedDelta{
			QKV: kernels.FromFloat32s(d, 1, 9, []float32{x, x, x, x, x, x, x, x, 1}),
			A:   zero, B: zero, ALog: zero, DtBias: zero,
			State: kernels.NewTensor(d, kernels.F32, 1, 4),
			Spans: []kernels.Span{{Rows: 1}},
			Out:   kernels.NewTensor(d, kernels.F32, 1, 1),
			Hk:    1, Hv: 1, Dk: 4, Dv: 1,
		}
		d.Run(&o)
		expect(t, name, o.Out.Float32s(), []float32{0.125})
		expect(t, name+": state", o.State.Float32s(),
			[]float32{0.1767767, 0.1767767, 0.1767767, 0.1767767})
	}
}

// TestGates checks the gates over the whole range of their inputs. A state of ones becomes g after
// a token with k = v = 0.
func TestGates(t *testing.T) {
	for name, d := range devices(t) {
		if name == cpu.Generic.String() {
			continue // shares the reference's gates
		}
		for _, a := range []float32{-80, -20, -3, -1e-3, 0, 0.5, 4, 30, 85} {
			for _, aLog := range []float32{-6, 0, 1.5} {
				one := func(x float32) kernels.Tensor {
					return kernels.FromFloat32s(d, 1, 1, []float32{x})
				}
				o := GatedDelta{QKV: kernels.NewTensor(d, kernels.F32, 1, 3), A: one(a), B: one(0),
					ALog: one(aLog), DtBias: one(0), State: one(1),
					Spans: []kernels.Span{{Rows: 1, Pos: 1}},
					Out:   kernels.NewTensor(d, kernels.F32, 1, 1), Hk: 1, Hv: 1, Dk: 1, Dv: 1}
				d.Run(&o)
				softplus := math.Log1p(math.Exp(float64(a)))
				rate := math.Exp(float64(aLog)) * softplus
				// The exponent is right to 4 roundings of 2^-24, so the result's relative error
				// grows with it. v_exp never returns less than e^-87.
				got, want := float64(o.State.Float32s()[0]), math.Exp(-rate)
				if math.Abs(got-want) > want*(4e-7+4e-7*rate)+2e-38 {
					t.Errorf("%s: a %g, a_log %g: got g = %g, expected %g", name, a, aLog, got,
						want)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	d := kernels.NewDryRun()
	tensor := func(rows, cols int) kernels.Tensor {
		return kernels.NewTensor(d, kernels.F32, rows, cols)
	}
	conv := func(change func(*Conv)) kernels.Op {
		o := &Conv{X: tensor(4, 8), Weight: tensor(8, 4), State: tensor(2, 24),
			Spans: []kernels.Span{{Rows: 2, Slot: 1}, {Row: 2, Rows: 2}}, Out: tensor(4, 8)}
		change(o)
		return o
	}
	delta := func(change func(*GatedDelta)) kernels.Op {
		o := &GatedDelta{QKV: tensor(4, 3*8+8), A: tensor(4, 2), B: tensor(4, 2),
			ALog: tensor(1, 2), DtBias: tensor(1, 2), State: tensor(2, 2*8*8),
			Spans: []kernels.Span{{Rows: 4}}, Out: tensor(4, 16), Hk: 1, Hv: 2, Dk: 8, Dv: 8}
		change(o)
		return o
	}
	for _, c := range []struct {
		op   kernels.Op
		want string // part of the error, "" for none
	}{
		{conv(func(*Conv) {}), ""},
		{conv(func(o *Conv) { o.Weight = tensor(8, 9); o.State = tensor(2, 64) }), "2 to 8 taps"},
		{conv(func(o *Conv) { o.State = tensor(2, 23) }), "state"},
		{conv(func(o *Conv) { o.State = kernels.NewTensor(d, kernels.BF16, 2, 24) }), ""},
		// 3 scales, 24 codes
		{conv(func(o *Conv) { o.State = kernels.NewTensor(d, kernels.I8, 2, 36) }), ""},
		{conv(func(o *Conv) { o.State = kernels.NewTensor(d, kernels.I8, 2, 24) }), "state"},
		{conv(func(o *Conv) { o.State = kernels.NewTensor(d, kernels.I8, 2, 40).Columns(2, 38) }),
			"multiples of 4"},
		{conv(func(o *Conv) { o.State = kernels.NewTensor(d, kernels.F16, 2, 24) }),
			"float32, bfloat16 or int8"},
		{conv(func(o *Conv) { o.State = kernels.Tensor{} }), "state"},
		{conv(func(o *Conv) { o.Spans[0].Slot = 2 }), "got slot 2"},
		{conv(func(o *Conv) { o.Spans[0].Slot = -1 }), "slot -1"},
		{conv(func(o *Conv) { o.Spans[0].Slot = 0 }), "a different slot for each span"},
		{conv(func(o *Conv) { o.Spans[1].Rows = 3 }), "span 1: got rows"},
		{conv(func(o *Conv) { o.Out = o.X }), "out"},
		{conv(func(o *Conv) { o.Bias = tensor(1, 8) }), ""},
		{conv(func(o *Conv) { o.Bias = tensor(1, 7) }), "bias"},
		{delta(func(*GatedDelta) {}), ""},
		{delta(func(o *GatedDelta) { o.State = kernels.NewTensor(d, kernels.I8, 2, 16*(4+8)) }),
			""},
		{delta(func(o *GatedDelta) { o.State = kernels.NewTensor(d, kernels.I8, 2, 16*8+4*2) }),
			"state"},
		{delta(func(o *GatedDelta) { o.Dk = 257 }), "at most 256"},
		{delta(func(o *GatedDelta) { o.Hk = 3 }), "multiple"},
		{delta(func(o *GatedDelta) { o.QKV = tensor(4, 31) }), "qkv"},
		{delta(func(o *GatedDelta) { o.ALog = kernels.Tensor{} }), "a_log: got none"},
		{delta(func(o *GatedDelta) { o.Spans[0].Slot = 9 }), "slot 9"},
	} {
		err := c.op.Check()
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, expected one with %q", c.op.Name(), err, c.want)
		}
	}
}

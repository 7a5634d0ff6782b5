package recurrent

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// TestRoundingByHand compares rounding with values worked out by hand. bfloat16 has 8 bits of
// precision, and ties round to even. In int8 the largest magnitude is 127 steps, so if it is 127,
// values round to integers, and ties to even ones.
func TestRoundingByHand(t *testing.T) {
	for _, test := range []struct {
		dtype     kernels.DType
		src, want []float32
	}{
		{kernels.F32, []float32{1 + 0x1p-23, -3}, []float32{1 + 0x1p-23, -3}},
		{kernels.BF16, []float32{1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-8 + 0x1p-20, -1 - 0x1p-8, 0,
			3e38}, []float32{1, 1 + 0x1p-6, 1 + 0x1p-7, -1, 0, 0x1.c4p127}},
		{kernels.I8, []float32{127, -63.5, 0.5, 1.5, -2.5, 62.4, 0},
			[]float32{127, -64, 0, 2, -2, 62, 0}},
		{kernels.I8, []float32{-254, 3, 5, 100.9}, []float32{-254, 4, 4, 100}},
		{kernels.I8, []float32{0, 0, 0}, []float32{0, 0, 0}},
		{kernels.I8, []float32{1e-42, -1e-42}, []float32{0, 0}},
	} {
		l := stateLayout{test.dtype, 2, len(test.src), len(test.src)}
		rounded, loaded := make([]float32, len(test.src)), make([]float32, len(test.src))
		slot := bytes.Repeat([]byte{0xff}, l.stateCols()*l.dtype.Size())
		l.round(rounded, test.src)
		store(l, slot, 1, 0, test.src)
		load(l, loaded, slot, 1, 0)
		if !slices.Equal(rounded, test.want) || !slices.Equal(loaded, test.want) {
			t.Errorf("%s of %v: rounded %v, stored and loaded %v, expected %v", test.dtype,
				test.src, rounded, loaded, test.want)
		}
		l.move(slot, 0, 1, 0, len(test.src))
		clear(loaded)
		if load(l, loaded, slot, 0, 0); !slices.Equal(loaded, test.want) {
			t.Errorf("%s: moved %v, expected %v", test.dtype, loaded, test.want)
		}
		l.clear(slot, 1, 0, len(test.src))
		if load(l, loaded, slot, 1, 0); slices.ContainsFunc(loaded,
			func(x float32) bool { return x != 0 }) {
			t.Errorf("%s: cleared %v, expected zeros", test.dtype, loaded)
		}
	}
}

// TestStateCols compares sizes worked out by hand, for 2 value rows of 3 and a convolution of 4
// taps over 70 channels, which are two groups.
func TestStateCols(t *testing.T) {
	for dtype, want := range map[kernels.DType][2]int{kernels.F32: {6, 210}, kernels.BF16: {6, 210},
		kernels.I8: {2*(4+3) + 2, 3*(2*4+70) + 2}} {
		if got := [2]int{StateCols(dtype, 2, 3),
			ConvStateCols(dtype, 4, 70)}; got != want {
			t.Errorf("%s: %v columns, expected %v", dtype, got, want)
		}
	}
}

// TestKeptStates compares every device's final state of the gated delta rule with the reference's.
func TestKeptStates(t *testing.T) {
	const hk, hv, dk, dv, tokens = 2, 4, 40, 37, 5
	for _, dtype := range []kernels.DType{kernels.BF16, kernels.I8} {
		compareStates(t, dtype, func(d kernels.Device, r *rand.Rand) (kernels.Op, kernels.Tensor,
			stateLayout) {
			l := stateLayout{dtype, hv * dv, dk, dk}
			o := &GatedDelta{
				QKV:    kernels.RandomTensor(d, r, tokens, 2*hk*dk+hv*dv, 1),
				A:      kernels.RandomTensor(d, r, tokens, hv, 1),
				B:      kernels.RandomTensor(d, r, tokens, hv, 1),
				ALog:   kernels.RandomTensor(d, r, 1, hv, 1),
				DtBias: kernels.RandomTensor(d, r, 1, hv, 1),
				State:  randomState(d, r, 1, l, 0.3), Spans: []kernels.Span{{Rows: tokens, Pos: 9}},
				Out: kernels.NewTensor(d, kernels.F32, tokens, hv*dv),
				Hk:  hk, Hv: hv, Dk: dk, Dv: dv,
			}
			return o, o.State, l
		})
	}
}

// compareStates runs an operator on every device, and compares its final state with the
// reference's, value by value. The order of sums differs, so a value may round to a neighbour, but
// most values must be equal.
func compareStates(t *testing.T, dtype kernels.DType,
	build func(d kernels.Device, r *rand.Rand) (kernels.Op, kernels.Tensor, stateLayout)) {
	t.Helper()
	run := func(d kernels.Device) (values, steps []float64) {
		o, state, l := build(d, rand.New(rand.NewPCG(3, 4)))
		d.Run(o)
		row := make([]float64, l.cols)
		for i := range l.rows {
			load(l, row, slot(state, 0), i, 0)
			values = append(values, row...)
			amax := 0.0
			for _, x := range row {
				amax = max(amax, math.Abs(x))
			}
			for _, x := range row {
				if dtype == kernels.BF16 {
					steps = append(steps, math.Abs(x)/128)
				} else {
					steps = append(steps, amax/127)
				}
			}
		}
		return values, steps
	}
	list := devices(t)
	want, steps := run(list["reference"])
	for name, d := range list {
		got, _ := run(d)
		other := 0
		for i := range want {
			off := math.Abs(got[i] - want[i])
			if off > steps[i]/50 {
				other++
			}
			if !(off <= 1.02*steps[i]+1e-6) {
				t.Fatalf("%s, %s: value %d is %g, expected %g within a step of %g", name, dtype, i,
					got[i], want[i], steps[i])
			}
		}
		if other > len(want)/200 {
			t.Errorf("%s, %s: %d of %d values differ from the reference's by a step", name, dtype,
				other, len(want))
		}
	}
}

// TestStateIsRoundedWithinSpan checks that a token reads the rounded state of the previous token,
// also within a span. There is one head with Dk = 1, so q and k become their signs. ALog is so low
// that g = 1. The first token has beta = sigmoid(100) = 1, so it sets S to v k = 1 + 2^-9, which is
// 1 in bfloat16. The second token has beta = 0 and reads 1, not 1 + 2^-9.
func TestStateIsRoundedWithinSpan(t *testing.T) {
	for name, d := range devices(t) {
		one := func(x ...float32) kernels.Tensor { return kernels.FromFloat32s(d, len(x), 1, x) }
		o := GatedDelta{
			QKV: kernels.FromFloat32s(d, 2, 3, []float32{1, 1, 1 + 0x1p-9, 1, 1, 5}), A: one(0, 0),
			B: one(100, -100), ALog: one(-80), DtBias: one(0),
			State: kernels.NewTensor(d, kernels.BF16, 1, 1), Spans: []kernels.Span{{Rows: 2}},
			Out: kernels.NewTensor(d, kernels.F32, 2, 1),
			Hk:  1, Hv: 1, Dk: 1, Dv: 1,
		}
		d.Run(&o)
		expect(t, name, o.Out.Float32s(), []float32{1 + 0x1p-9, 1})
	}
}

// TestConvStateBitsAgree checks that the convolution's state has the same bits on every device and
// in plain Go, because it is the rounded input.
func TestConvStateBitsAgree(t *testing.T) {
	const channels, taps = 275, 4
	for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16, kernels.I8} {
		var want []byte
		for name, d := range devices(t) {
			if name == "reference" { // is plain Go too
				continue
			}
			r := rand.New(rand.NewPCG(5, 6))
			x := kernels.RandomTensor(d, r, 7, channels, 1)
			clear(x.Row(5)[64:128]) // a group of zeros
			x.Row(4)[130] = 1e4     // a loud channel
			o := Conv{X: x, Weight: kernels.RandomTensor(d, r, channels, taps, 1),
				State: kernels.NewTensor(d, dtype, 1, ConvStateCols(dtype, taps, channels)),
				Spans: []kernels.Span{{Rows: 7}},
				Out:   kernels.NewTensor(d, kernels.F32, 7, channels)}
			d.Run(&o)
			got := slices.Clone(slot(o.State, 0))
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s differs from the previous device", dtype, name)
			}
		}
	}
}

// BenchmarkDecodeFromMemory decodes one token of each of 160 sequences. Their states together do
// not fit in any cache, as in a model of many layers.
func BenchmarkDecodeFromMemory(b *testing.B) {
	const hk, hv, dk, dv, slots = 16, 32, 128, 128, 160
	for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16, kernels.I8} {
		b.Run(short(dtype), func(b *testing.B) {
			d := kernels.NewCPU(cpu.Options{})
			defer d.Close()
			r := rand.New(rand.NewPCG(7, 8))
			o := &GatedDelta{
				QKV:    kernels.RandomTensor(d, r, 1, 2*hk*dk+hv*dv, 1),
				A:      kernels.RandomTensor(d, r, 1, hv, 1),
				B:      kernels.RandomTensor(d, r, 1, hv, 1),
				ALog:   kernels.RandomTensor(d, r, 1, hv, 1),
				DtBias: kernels.RandomTensor(d, r, 1, hv, 1),
				State:  kernels.NewTensor(d, dtype, slots, StateCols(dtype, hv*dv, dk)),
				Spans:  []kernels.Span{{Rows: 1}},
				Out:    kernels.NewTensor(d, kernels.F32, 1, hv*dv), Hk: hk, Hv: hv, Dk: dk, Dv: dv,
			}
			for i := range slots {
				o.Spans[0].Slot = int32(i)
				d.Run(o)
			}
			o.Spans[0].Pos = 1
			b.SetBytes(o.TrafficBytes())
			for i := 0; b.Loop(); i++ {
				o.Spans[0].Slot = int32(i % slots)
				d.Run(o)
			}
		})
	}
}

// TestLongMemory bounds the error of rounding after every token. 4,096 tokens pass through heads
// that forget half, a hundredth, a thousandth or almost nothing of their state with each token. The
// error is the root mean square of the last 512 outputs against a float32 state. The bounds are
// measured and rounded up. bfloat16 is exact to 2^-9 of a value, so a smaller decay is lost until
// the delta rule corrects it. int8 is coarser, but its scale carries the decay, which is never
// lost.
func TestLongMemory(t *testing.T) {
	const tokens, heads, dk, dv = 4096, 4, 128, 16
	rates := []float64{0.5, 0.01, 0.001, 0.00001}
	run := func(dtype kernels.DType) []float32 {
		d := kernels.NewCPU(cpu.Options{Threads: 1})
		defer d.Close()
		r := rand.New(rand.NewPCG(9, 10))
		o := &GatedDelta{
			QKV:    kernels.RandomTensor(d, r, tokens, 2*dk+heads*dv, 1),
			A:      kernels.NewTensor(d, kernels.F32, tokens, heads),
			B:      kernels.RandomTensor(d, r, tokens, heads, 1),
			ALog:   kernels.NewTensor(d, kernels.F32, 1, heads),
			DtBias: kernels.NewTensor(d, kernels.F32, 1, heads),
			State:  kernels.NewTensor(d, dtype, 1, StateCols(dtype, heads*dv, dk)),
			Spans:  []kernels.Span{{Rows: tokens}},
			Out:    kernels.NewTensor(d, kernels.F32, tokens, heads*dv), Hk: 1, Hv: heads, Dk: dk,
			Dv: dv,
		}
		for h, rate := range rates { // g = exp(-exp(ALog) * log 2)
			o.ALog.Row(0)[h] = float32(math.Log(-math.Log1p(-rate) / math.Ln2))
		}
		d.Run(o)
		return slices.Clone(o.Out.RowRange(tokens-512, tokens).Float32s())
	}
	want := run(kernels.F32)
	for dtype, bounds := range map[kernels.DType][]float64{kernels.BF16: {0.002, 0.015, 0.03, 0.03},
		kernels.I8: {0.006, 0.06, 0.1, 0.12}} {
		got := run(dtype)
		for h := range heads {
			var off, all float64
			for i := range want {
				if i%(heads*dv)/dv == h {
					off += math.Pow(float64(got[i]-want[i]), 2)
					all += math.Pow(float64(want[i]), 2)
				}
			}
			if e := math.Sqrt(off / all); !(e <= bounds[h]) {
				t.Errorf("%s, decay by %g a token: got an error of %.4f, expected at most %g",
					dtype, rates[h], e, bounds[h])
			}
		}
	}
}

package attention

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

// TestRowBytes compares sizes worked out by hand for Qwen3.5-35B-A3B, which has 2 KV heads of 256.
func TestRowBytes(t *testing.T) {
	for _, test := range []struct {
		f    Format
		d    int
		want int
	}{
		{FloatFormat(kernels.F16), 256, 512}, {FloatFormat(kernels.F32), 256, 1024},
		// 544, 320 and 576 for two heads
		{affine(8, 64), 256, 272}, {affine(4, 32), 256, 160}, {affine(8, 32), 256, 288},
		{affine(3, 128), 128, 52}, {affine(5, 32), 32, 24}, {affine(6, 64), 64, 52},
		{affine(2, 32), 96, 36},
		{Format{Kind: Q8_0}, 32, 34}, {Format{Kind: Q4_0}, 32, 18}, {Format{Kind: Q4_0}, 256, 144},
	} {
		if got := test.f.RowBytes(test.d); got != test.want {
			t.Errorf("%s, %d dimensions: %d bytes, expected %d", test.f, test.d, got, test.want)
		}
	}
	d := kernels.NewDryRun()
	c := NewCache(d, affine(8, 64), affine(4, 32), 2, 256, 32, 3, Start{})
	if c.KPageBytes() != 32*544 || c.VPageBytes() != 32*320 || c.K.Size != 3*32*544 ||
		c.Pages() != 3 {
		t.Errorf("K8 g64, V4 g32: pages of %d and %d bytes, %d pages", c.KPageBytes(),
			c.VPageBytes(), c.Pages())
	}
}

func TestFormatCheck(t *testing.T) {
	for _, test := range []struct {
		f  Format
		d  int
		ok bool
	}{
		{FloatFormat(kernels.BF16), 48, true}, {FloatFormat(kernels.I8), 64, false},
		{affine(4, 32), 96, true}, {affine(4, 64), 96, false},
		{affine(7, 32), 64, false}, {affine(4, 16), 64, false}, {Format{Kind: Q4_0}, 48, false},
		{Format{Kind: Q8_0}, 64, true}, {Format{Kind: 9}, 64, false},
	} {
		if err := test.f.Check(test.d); (err == nil) != test.ok {
			t.Errorf("%s, %d dimensions: %v", test.f, test.d, err)
		}
	}
}

// stored returns x after a round trip through a cache of one head, as K and as V.
func stored(t *testing.T, f Format, x []float32) (k, v []float32) {
	t.Helper()
	d := kernels.NewReference()
	defer d.Close()
	c := NewCache(d, f, f, 1, len(x), 32, 1, Start{})
	const pos = 21
	a := &Append{K: kernels.FromFloat32s(d, 1, len(x), x), V: kernels.FromFloat32s(d, 1, len(x), x),
		Cache: c, Spans: []kernels.Span{{Rows: 1, Pos: pos, Pages: []int32{0}}}}
	d.Run(a)
	k, v = make([]float32, len(x)), make([]float32, len(x))
	c.keys(pos).read(k, []int32{0}, 0, pos)
	c.values(pos).read(v, []int32{0}, 0, pos)
	return k, v
}

// TestQuantization compares groups of 32 worked out by hand. The listed elements come first, all
// others are zero.
func TestQuantization(t *testing.T) {
	for _, test := range []struct {
		name    string
		f       Format
		x, want []float32
	}{
		// lo = -3 is farther from zero: s = 4/3, q0 = round(-2.25) = -2, so s = 1.5 and bias = -3:
		// values -3, -1.5, 0, 1.5.
		{"affine 2, low edge", affine(2, 32), []float32{-3, 1, -1.4, -1.6, 0.7},
			[]float32{-3, 1.5, -1.5, -1.5, 0}},
		// hi = 3: s = -1, q0 = -3, bias = 3: values 3, 2, 1, 0.
		{"affine 2, high edge", affine(2, 32), []float32{3, 1, 2.4, 0.6, 0},
			[]float32{3, 1, 2, 1, 0}},
		// s = -1, bias = 15; halves round to the even code, counted from 15: code 14 is 1.
		{"affine 4", affine(4, 32), []float32{15, 7.4, 0.5, 1.5}, []float32{15, 7, 1, 1}},
		// d = 1: halves round to even.
		{"q8_0", Format{Kind: Q8_0}, []float32{-127, 0.5, 1.5, -3.4, 126.6},
			[]float32{-127, 0, 2, -3, 127}},
		// m = -8 gives d = 1; 7.9 saturates at 7.
		{"q4_0, negative", Format{Kind: Q4_0}, []float32{-8, 7.9, 0.4, -0.6},
			[]float32{-8, 7, 0, -1}},
		// The first of equal magnitudes decides: m = 8 gives d = -1, so -8 saturates at -7.
		{"q4_0, first of two", Format{Kind: Q4_0}, []float32{8, -8, 3}, []float32{8, -7, 3}},
		{"zeros, affine", affine(8, 32), []float32{0}, []float32{0}},
		{"zeros, q8_0", Format{Kind: Q8_0}, []float32{0}, []float32{0}},
		{"zeros, q4_0", Format{Kind: Q4_0}, []float32{float32(math.Copysign(0, -1))}, []float32{0}},
	} {
		x, want := make([]float32, 32), make([]float32, 32)
		copy(x, test.x)
		copy(want, test.want)
		k, v := stored(t, test.f, x)
		for i := range x {
			if k[i] != want[i] || v[i] != want[i] {
				t.Errorf("%s: element %d, %g, came back as %g (K) and %g (V), expected %g",
					test.name, i, x[i], k[i], v[i], want[i])
			}
		}
	}
}

// TestQuantizationError checks that every error is at most a step, plus the rounding of scale and
// bias to float16, and that most errors are at most half a step.
func TestQuantizationError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range []Format{affine(2, 32), affine(3, 64), affine(4, 32), affine(5, 128),
		affine(6, 32), affine(8, 64), {Kind: Q8_0}, {Kind: Q4_0}} {
		const d = 256
		var squares, total float64
		for range 50 {
			x := make([]float32, d)
			offset, scale := r.NormFloat64(), math.Exp(3*r.NormFloat64())
			for i := range x {
				x[i] = float32((r.NormFloat64() + offset) * scale)
			}
			k, v := stored(t, f, x)
			for at := 0; at < d; at += f.group() {
				lo, hi := x[at], x[at]
				for _, y := range x[at:][:f.group()] {
					lo, hi = min(lo, y), max(hi, y)
				}
				step := float64(hi-lo) / float64(int(1)<<f.bits()-1)
				if f.Kind != Affine {
					step = float64(max(hi, -lo)) / float64(int(1)<<(f.bits()-1)-1)
				}
				edge := float64(max(abs(lo), abs(hi)))
				for i := at; i < at+f.group(); i++ {
					if k[i] != v[i] {
						t.Fatalf("%s: element %d is %g in K and %g in V", f, i, k[i], v[i])
					}
					off := math.Abs(float64(k[i] - x[i]))
					// q0 is rounded, so the step can grow by half at 2 bits.
					if off > 1.5*step+edge/1000 {
						t.Errorf("%s: %g came back as %g, a step is %g", f, x[i], k[i], step)
					}
					squares += off * off / (step * step)
					total++
				}
			}
		}
		// A uniform error within half a step has a root mean square of 0.29 steps.
		if rms := math.Sqrt(squares / total); rms > 0.4 {
			t.Errorf("%s: errors of %.2f steps, root mean square", f, rms)
		}
	}
}

// TestOddValues checks that large values saturate and NaN stays NaN, with the same bits on all
// instruction sets.
func TestOddValues(t *testing.T) {
	const d = 128
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := make([]float32, d)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	x[3], x[9], x[40], x[70], x[71], x[100] = inf, -3e38, nan, 1e-8, -1e-8, -inf
	clear(x[64:70])
	clear(x[72:96])
	for _, f := range []Format{affine(8, 32), affine(3, 32), affine(4, 64), {Kind: Q8_0},
		{Kind: Q4_0}} {
		k, _ := stored(t, f, x)
		for i, y := range k {
			group := x[i/f.group()*f.group():][:f.group()]
			poisoned := false
			for _, v := range group {
				poisoned = poisoned || v != v
			}
			if poisoned != (y != y) || math.IsInf(float64(y), 0) || abs(y) > 2*maxFloat16 {
				t.Errorf("%s: element %d, %g, came back as %g", f, i, x[i], y)
			}
		}
		var want [][]byte
		for _, isa := range append([]cpu.ISA{cpu.Generic}, cpu.Available()...) {
			dev := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1})
			c := NewCache(dev, f, f, 1, d, 16, 1, Start{})
			dev.Run(&Append{K: kernels.FromFloat32s(dev, 1, d, x),
				V: kernels.FromFloat32s(dev, 1, d, x), Cache: c,
				Spans: []kernels.Span{{Rows: 1, Pos: 5, Pages: []int32{0}}}})
			var got [][]byte
			for _, m := range c.tensors() {
				got = append(got, kerneltest.Elements(m))
			}
			if want != nil && (!bytes.Equal(got[0], want[0]) || !bytes.Equal(got[1], want[1])) {
				t.Errorf("%s: %s stores different bytes", f, isa)
			}
			want = got
			dev.Close()
		}
	}
}

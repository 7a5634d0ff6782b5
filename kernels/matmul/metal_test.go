package matmul

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/kernels/kerneltest"
)

func TestMetalCases(t *testing.T) {
	if split := kerneltest.RunMetal(t, Cases()); split >= 0 && split < 10 {
		t.Errorf("short buffers have split %d cases, expected at least 10", split)
	}
}

func sync(t *testing.T, d kernels.Device) {
	t.Helper()
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}

// TestMetalFloat32Activations checks that quantized weights are as exact as plain ones on Metal,
// which does not round activations.
func TestMetalFloat32Activations(t *testing.T) {
	d := kerneltest.Metal(t)
	reference := kernels.NewReference()
	defer reference.Close()
	for _, c := range Cases() {
		op, outs := c.New(d, rand.New(rand.NewPCG(9, 9)))
		if _, ok := op.(gpu.Op); !ok {
			continue
		}
		d.Run(op)
		sync(t, d)
		ref, wants := c.New(reference, rand.New(rand.NewPCG(9, 9)))
		reference.Run(ref)
		for i, o := range outs {
			if at, g, w := kerneltest.Differ(kerneltest.Elements(o), kerneltest.Elements(wants[i]),
				2e-6, 2e-6); at >= 0 {
				t.Errorf("%s: output %d element %d: got %g, expected %g", c.Name, i, at, g, w)
			}
		}
	}
}

// TestMetalRowAloneEqualsRowInBatch checks that the bits of a row do not depend on the other rows
// of the batch or on its position among them.
func TestMetalRowAloneEqualsRowInBatch(t *testing.T) {
	d := kerneltest.Metal(t)
	r := rand.New(rand.NewPCG(5, 6))
	const most, n = 19, 9
	for _, w := range formats(d, r, 1, n) {
		x := kernels.RandomTensor(d, r, most, w.K, 1)
		all := kernels.NewTensor(d, kernels.F32, most, n)
		d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: all}}})
		type part struct {
			from int
			out  kernels.Tensor
		}
		var parts []part
		for m := 1; m <= most; m++ {
			p := part{r.IntN(most - m + 1), kernels.NewTensor(d, kernels.F32, m, n)}
			parts = append(parts, p)
			d.Run(&Linear{X: x.RowRange(p.from, p.from+m), Parts: []Part{{W: w, Out: p.out}}})
		}
		sync(t, d)
		for _, p := range parts {
			if m := p.out.Rows; !bytes.Equal(p.out.Bytes(),
				all.RowRange(p.from, p.from+m).Bytes()) {
				t.Errorf(
					"%s [%d, %d]: rows [%d, %d) alone differ from the same rows in a batch of %d",
					w.Format(), n, w.K, p.from, p.from+m, most)
			}
		}
	}
}

// TestMetalPrefillRowAloneEqualsRowInBatch checks that a prefill row has the same bits alone, in
// any chunk of the prompt, and in a batch with decode rows. Decode rows must not change either.
func TestMetalPrefillRowAloneEqualsRowInBatch(t *testing.T) {
	d := kerneltest.Metal(t)
	r := rand.New(rand.NewPCG(6, 7))
	const most, n = 41, 9
	for i, w := range formats(d, r, 1, n) {
		if i%2 == 1 {
			continue // one format per width is enough: both kernels decode them with the same code
		}
		x := kernels.RandomTensor(d, r, most, w.K, 1)
		run := func(from, to int, prefill ...Rows) kernels.Tensor {
			out := kernels.NewTensor(d, kernels.F32, to-from, n)
			d.Run(&Linear{X: x.RowRange(from, to), Parts: []Part{{W: w, Out: out}},
				Prefill: prefill})
			return out
		}
		prompt, decoded := run(0, most, Rows{0, most}), run(0, most)
		cut := 1 + r.IntN(most-1)
		before, after, last := run(0, cut, Rows{0, cut}), run(cut, most, Rows{0, most - cut}),
			run(most-1, most, Rows{0, 1})
		mixed := run(0, most, Rows{cut / 2, cut})
		two := run(0, most, Rows{0, cut / 2}, Rows{cut, most})
		sync(t, d)
		same := func(what string, from int, got, want kernels.Tensor) {
			if !bytes.Equal(got.Bytes(), want.RowRange(from, from+got.Rows).Bytes()) {
				t.Errorf("%s [%d, %d], cut at %d: %s: bits differ", w.Format(), n, w.K, cut, what)
			}
		}
		same("rows before the cut", 0, before, prompt)
		same("rows after the cut", cut, after, prompt)
		same("the last row alone", most-1, last, prompt)
		same("prefill between decode rows", cut/2, mixed.RowRange(cut/2, cut), prompt)
		same("decode rows before prefill", 0, mixed.RowRange(0, cut/2), decoded)
		same("decode rows after prefill", cut, mixed.RowRange(cut, most), decoded)
		same("decode rows between two prompts", cut/2, two.RowRange(cut/2, cut), decoded)
		same("a second prompt", cut, two.RowRange(cut, most), prompt)
	}
}

// TestMetalUnaligned checks that views at odd offsets, which vector loads cannot read, give the
// same bits as aligned operands.
func TestMetalUnaligned(t *testing.T) {
	d := kerneltest.Metal(t)
	r := rand.New(rand.NewPCG(7, 7))
	const rows, n = 3, 5
	for _, w := range formats(d, r, 1, n) {
		x := kernels.RandomTensor(d, r, rows, w.K, 1)
		odd := *w
		odd.Data, odd.Scales, odd.Biases = moved(d, w.Data), moved(d, w.Scales), moved(d, w.Biases)
		want, got := kernels.NewTensor(d, kernels.F32, rows, n),
			moved(d, kernels.NewTensor(d, kernels.F32, rows, n))
		d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: want}}})
		d.Run(&Linear{X: moved(d, x), Parts: []Part{{W: &odd, Out: got}}})
		wantTiles, gotTiles := kernels.NewTensor(d, kernels.F32, rows, n),
			moved(d, kernels.NewTensor(d, kernels.F32, rows, n))
		d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: wantTiles}}, Prefill: Prefill{{0, rows}}})
		d.Run(&Linear{X: moved(d, x), Parts: []Part{{W: &odd, Out: gotTiles}},
			Prefill: Prefill{{0, rows}}})
		sync(t, d)
		if !bytes.Equal(kerneltest.Elements(got), kerneltest.Elements(want)) ||
			!bytes.Equal(kerneltest.Elements(gotTiles), kerneltest.Elements(wantTiles)) {
			t.Errorf("%s %s [%d, %d]: unaligned operands change the bits", w.Format(), w.Data.DType,
				n, w.K)
		}
	}
}

// moved returns a copy of x in columns [1, Cols+1) of a wider tensor.
func moved(d kernels.Device, x kernels.Tensor) kernels.Tensor {
	if x.IsNone() {
		return x
	}
	wide := kernels.NewTensor(d, x.DType, x.Rows, x.Cols+3).Columns(1, x.Cols+1)
	for r := range x.Rows {
		copy(wide.RowRange(r, r+1).Bytes(), x.RowRange(r, r+1).Bytes())
	}
	return wide
}

// TestMetalFloatModesEqualPlain checks that a product with MXFP8, NVFP4 or FP8 has the bits of a
// product with the same elements in float32, in decoding and in prefill.
func TestMetalFloatModesEqualPlain(t *testing.T) {
	d := kerneltest.Metal(t)
	for _, mode := range floatModes {
		w, plain := everyCode(d, mode, 20) // no element is subnormal
		x := kernels.RandomTensor(d, rand.New(rand.NewPCG(2, 2)), 5, w.K, 1)
		for _, prefill := range []Prefill{nil, {{0, 5}}} {
			got, want := kernels.NewTensor(d, kernels.F32, 5, w.N),
				kernels.NewTensor(d, kernels.F32, 5, w.N)
			d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: got}}, Prefill: prefill})
			d.Run(&Linear{X: x, Parts: []Part{{W: plain, Out: want}}, Prefill: prefill})
			sync(t, d)
			sameProducts(t, fmt.Sprintf("%s, prefill %v", mode, prefill), w.N, got.Bytes(),
				want.Bytes())
		}
	}
}

// TestMetalNaNSpreads checks that infinite and NaN activations make the output infinite or NaN.
func TestMetalNaNSpreads(t *testing.T) {
	d := kerneltest.Metal(t)
	w := kernels.RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 3, 128, 4, 64, kernels.BF16, 1)
	for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		x := kernels.RandomTensor(d, rand.New(rand.NewPCG(3, 4)), 1, 128, 1)
		x.Row(0)[5+40*i] = float32(bad)
		out := kernels.NewTensor(d, kernels.F32, 1, 3)
		d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: out}}})
		sync(t, d)
		for n, v := range out.Row(0) {
			if v-v == 0 {
				t.Errorf("activation %g: output %d is %g, expected an infinity or NaN", bad, n, v)
			}
		}
	}
}

// TestMetalExpertsEqualLinear checks that Experts gives the bits of a Linear with the chosen
// matrix, and NaN for an expert that does not exist.
func TestMetalExpertsEqualLinear(t *testing.T) {
	const experts, n, tokens = 5, 21, 4
	d := kerneltest.Metal(t)
	r := rand.New(rand.NewPCG(7, 8))
	for i, w := range formats(d, r, experts, n) {
		choices, prefill := 1+i%3,
			[]Prefill{nil, {{1, 3}}, {{0, 1}, {3, tokens}}, {{0, tokens}}}[i%4]
		xRows := tokens
		if i%5 > 2 {
			xRows *= choices
		}
		x := kernels.RandomTensor(d, r, xRows, w.K, 1)
		ids := kernels.NewTensor(d, kernels.I32, tokens, choices+2).Columns(1, 1+choices)
		for m := range tokens {
			for j := range choices {
				ids.RowRange(m, m+1).Int32s()[j] = int32(r.IntN(experts))
			}
		}
		bad := []int32{-1, experts, math.MaxInt32, math.MinInt32}[i%4]
		ids.RowRange(2, 3).Int32s()[0] = bad
		out := kernels.NewTensor(d, kernels.F32, tokens*choices, n)
		d.Run(&Experts{X: x, IDs: ids, Parts: []Part{{W: w, Out: out}}, Prefill: prefill})
		sync(t, d)
		for pair := range tokens * choices {
			e := int(ids.RowRange(pair/choices, pair/choices+1).Int32s()[pair%choices])
			if e == int(bad) {
				if v := out.Row(pair); v[0] == v[0] || v[n-1] == v[n-1] {
					t.Errorf("%s: expert %d of %d gives %v, expected NaN", w.Format(), e, experts,
						v)
				}
				continue
			}
			want := kernels.NewTensor(d, kernels.F32, 1, n)
			from := pair
			if xRows == tokens {
				from /= choices
			}
			one := &Linear{X: x.RowRange(from, from+1),
				Parts: []Part{{W: matrixOf(w, e), Out: want}}}
			for _, p := range prefill {
				if m := pair / choices; m >= p.From && m < p.To {
					one.Prefill = Prefill{{0, 1}}
				}
			}
			d.Run(one)
			sync(t, d)
			if !bytes.Equal(want.Bytes(), out.RowRange(pair, pair+1).Bytes()) {
				t.Fatalf("%s, prefill %v: output row %d differs from expert %d alone", w.Format(),
					prefill, pair, e)
			}
		}
	}
}

// matrixOf returns the matrix of expert e as a weight.
func matrixOf(w *kernels.Weight, e int) *kernels.Weight {
	one := *w
	one.Experts, one.Data = 1, w.Data.RowRange(e*w.N, (e+1)*w.N)
	if !w.Scales.IsNone() {
		one.Scales = w.Scales.RowRange(e*w.N, (e+1)*w.N)
	}
	if !w.Biases.IsNone() {
		one.Biases = w.Biases.RowRange(e*w.N, (e+1)*w.N)
	}
	return &one
}

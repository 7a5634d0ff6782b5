package matmul

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

// formats returns weights of all formats, of widths that end within a block of every kernel's
// loops.
func formats(d kernels.Device, r *rand.Rand, experts, n int) []*kernels.Weight {
	var all []*kernels.Weight
	add := func(bits, group, k int, dtype kernels.DType) {
		all = append(all, kernels.RandomWeight(d, r, experts, n, k, bits, group, dtype,
			1/math.Sqrt(float64(k))))
	}
	for i, bits := range []int{2, 3, 4, 5, 6, 8} {
		for j, group := range []int{32, 64, 128} {
			add(bits, group, 128*(1+(2*i+5*j)%11),
				[]kernels.DType{kernels.F32, kernels.F16, kernels.BF16}[(i+j)%3])
		}
		add(bits, 32, 32*(15+2*i), kernels.BF16) // ends in half a chunk
	}
	add(4, 32, 32*23, kernels.U8) // MXFP4
	add(4, 32, 32*8, kernels.U8)
	add(8, 32, 32*23, kernels.U8) // MXFP8
	add(8, 32, 32*8, kernels.U8)
	add(4, 16, 32*23, kernels.E4M3) // NVFP4
	add(4, 16, 32*8, kernels.E4M3)
	add(8, 128, 32*23, kernels.E4M3) // FP8
	add(8, 32*9, 32*9, kernels.E4M3)
	add(0, 0, 1, kernels.F32)
	add(0, 0, 133, kernels.F32)
	add(0, 0, 255, kernels.F16)
	add(0, 0, 300, kernels.BF16)
	return all
}

func product(d kernels.Device, w *kernels.Weight, x kernels.Tensor) []byte {
	out := kernels.NewTensor(d, kernels.F32, x.Rows, w.N)
	d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: out}}})
	return kerneltest.Elements(out)
}

// TestInstructionSetsAgree checks that every instruction set and plain Go give the same bits with
// rounded activations.
func TestInstructionSetsAgree(t *testing.T) {
	base := kernels.NewReference()
	defer base.Close()
	r := rand.New(rand.NewPCG(3, 4))
	for _, w := range formats(base, r, 1, 37) { // whole slices and panels, and a part
		if w.Float() {
			continue
		}
		x := kernels.RandomTensor(base, r, 11, w.K, 1)
		for i := range 64 {
			// a chunk of zeros, and large numbers that saturate 16-bit sums of products
			if w.K > 64 {
				x.Row(1)[i] = 0
			}
			x.Row(2)[i] = 1000
			x.Row(3)[i%w.K] = -1000
		}
		x.Row(4)[w.K-1] = 1e-42
		var want []byte
		for _, isa := range cpu.Available() {
			d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1})
			got := product(d, w, x)
			if want == nil {
				want = got
			}
			if at, g, e := kerneltest.Differ(got, want, 0, 0); at >= 0 || !bytes.Equal(got, want) {
				t.Errorf("%s [%d, %d]: %s differs from plain Go: element %d is %g, expected %g",
					w.Format(), w.N, w.K, isa, at, g, e)
			}
			d.Close()
		}
	}
}

// TestRoundingNextToTies checks that rounding has the bits of a division rounded to nearest even,
// for values next to ties and for large, small and too small scales.
func TestRoundingNextToTies(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const k = 64*21 + 32 // ends in half a chunk, and in a part of a batch of them
	x := kernels.NewTensor(kernels.NewReference(), kernels.F32, 40, k)
	for row := range x.Rows {
		for i, v := 0, x.Row(row); i < k; i += chunk {
			largest := math.Float32frombits(uint32(r.IntN(0x7f000000))) // any exponent
			if i%(4*chunk) == 0 {
				largest = 127 * float32(1+r.Float64())
			}
			s := largest / 127
			for j := range min(chunk, k-i) {
				near := float32(r.IntN(127)) + 0.5
				v[i+j] = math.Float32frombits(math.Float32bits(near*s) + uint32(r.IntN(5)) - 2)
				if math.IsInf(float64(v[i+j]), 0) || v[i+j] != v[i+j] || v[i+j] > largest {
					v[i+j] = 0
				}
				if r.IntN(2) == 0 {
					v[i+j] = -v[i+j]
				}
			}
			v[i+r.IntN(min(chunk, k-i))] = largest
		}
	}
	x.Row(3)[70], x.Row(4)[k-1] = float32(math.NaN()), float32(math.Inf(-1))
	var want []byte
	for _, isa := range cpu.Available() {
		in := input{x: x}
		in.scratch = make([]byte, in.roundedBytes())
		in.round(&cpu.Context{ISA: isa}, 0, x.Rows)
		if isa == cpu.Generic { // has no second copy of the codes
			want = in.scratch
			continue
		}
		for row := range x.Rows {
			plain := input{x: x, scratch: want}
			if !slices.Equal(in.codes(row), plain.codes(row)) {
				t.Errorf("%s, row %d: codes differ from plain Go's", isa, row)
			}
			for i, v := range in.params(row) {
				if e := plain.params(row)[i]; math.Float32bits(v) != math.Float32bits(e) &&
					(v == v || e == e) {
					t.Errorf("%s, row %d: number %d of the scales and sums is %g, expected %g", isa,
						row, i, v, e)
				}
			}
		}
	}
}

// TestExtremeCodes checks that no intermediate result overflows when codes and activations have
// their largest values, with few rows, slices and panels.
func TestExtremeCodes(t *testing.T) {
	base := kernels.NewReference()
	defer base.Close()
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		w := kernels.RandomWeight(base, rand.New(rand.NewPCG(1, 1)), 1, 20, 128, bits, 64,
			kernels.F32, 1)
		for i := range w.Data.Bytes() {
			w.Data.Bytes()[i] = 0xff
		}
		for i := range w.Scales.Float32s() {
			w.Scales.Float32s()[i], w.Biases.Float32s()[i] = 1, 0
		}
		x := kernels.NewTensor(base, kernels.F32, 34, 128)
		for m := range x.Rows {
			for i := range 128 {
				x.Row(m)[i] = float32(127 - 254*(m%2))
			}
		}
		for _, isa := range cpu.Available() {
			d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1})
			for _, rows := range []int{2, 12, x.Rows} {
				out := kernels.NewTensor(d, kernels.F32, rows, 20)
				d.Run(&Linear{X: x.RowRange(0, rows), Parts: []Part{{W: w, Out: out}}})
				for m := range rows {
					want := x.Row(m)[0] * 128 * float32(int(1)<<bits-1)
					for n, got := range out.Row(m) {
						if got != want {
							t.Errorf("%d bits, %s, element %d of row %d of %d: got %g, expected %g",
								bits, isa, n, m, rows, got, want)
						}
					}
				}
			}
			d.Close()
		}
	}
}

// TestExtremeMXFP4 checks that every MXFP4 code times the largest and the smallest activation is
// exact, for few rows and for many.
func TestExtremeMXFP4(t *testing.T) {
	base := kernels.NewReference()
	defer base.Close()
	values := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
	w := kernels.RandomWeight(base, rand.New(rand.NewPCG(1, 1)), 1, 16, 96, 4, 32, kernels.U8, 1)
	for code := range 16 { // a row of each code
		for i, b := 0, w.Data.RowRange(code, code+1).Bytes(); i < len(b); i++ {
			b[i] = uint8(code | code<<4)
		}
		copy(w.Scales.RowRange(code, code+1).Bytes(), []byte{127, 128, 125})
	}
	x := kernels.NewTensor(base, kernels.F32, 12, 96)
	for m := range 12 {
		for k := range 96 {
			x.Row(m)[k] = float32(127 - 254*(m%2))
		}
	}
	for _, isa := range cpu.Available() {
		for _, floats := range []bool{false, true} {
			d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1, Float32Activations: floats})
			for _, rows := range []int{1, 2, 12} {
				out := kernels.NewTensor(d, kernels.F32, rows, 16)
				d.Run(&Linear{X: x.RowRange(0, rows), Parts: []Part{{W: w, Out: out}}})
				for m := range rows {
					for code, v := range values {
						if got, want := out.Row(m)[code], v*32*(1+2+0.25)*x.Row(m)[0]; got != want {
							t.Errorf(
								"%s, float32 activations %t, row %d of %d, code %d: got %g, "+
									"expected %g", isa, floats, m, rows, code, got, want)
						}
					}
				}
			}
			d.Close()
		}
	}
}

// floatModes are the modes whose elements are multiplied as floats.
var floatModes = []kernels.Mode{kernels.MXFP8, kernels.NVFP4, kernels.FP8}

// everyCode returns a weight in one of floatModes with every code and, in NVFP4, every scale, and
// the same elements in float32. Its factors begin at 2^(first-127), so elements are small and large
// numbers. Row nanRow has NaN.
func everyCode(d kernels.Device, mode kernels.Mode, first int) (w, plain *kernels.Weight) {
	const n, k = 11, 32 * 23
	dtype, group := kernels.E4M3, 128 // the last of 128 is shorter
	if mode.Group() > 0 {
		group = mode.Group()
	}
	if mode == kernels.MXFP8 {
		dtype = kernels.U8
	}
	w = kernels.RandomWeight(d, rand.New(rand.NewPCG(1, 1)), 1, n, k, mode.Bits(), group, dtype, 1)
	plain = &kernels.Weight{Experts: 1, N: n, K: k, Data: kernels.NewTensor(d, kernels.F32, n, k)}
	fill := func(b []byte, row, first int) {
		for i := range b {
			if b[i] = uint8(i + first); b[i]&0x7f == 0x7f && row != nanRow {
				b[i] = 0
			}
		}
	}
	factor := func(exponent int) float32 { return float32(math.Ldexp(1.37, first-127+exponent)) }
	for row := range n {
		scales := w.Scales.RowRange(row, row+1)
		switch mode {
		case kernels.MXFP8:
			fill(w.Data.RowRange(row, row+1).Bytes(), row, row)
			for i, b := 0, scales.Bytes(); i < len(b); i++ {
				b[i] = uint8(first + 18*row + i)
			}
		case kernels.FP8:
			fill(w.Data.RowRange(row, row+1).Bytes(), row, row)
			for i := range scales.Float32s() {
				scales.Float32s()[i] = factor(18*row + i)
			}
		case kernels.NVFP4:
			for i, b := 0, w.Data.RowRange(row, row+1).Bytes(); i < len(b); i++ {
				b[i] = uint8(i + row)
			}
			fill(scales.Bytes(), row, 46*row)
			scales.Bytes()[0] = 0x08 // 2^-6, the smallest that is not subnormal
			if row == nanRow {
				scales.Bytes()[7] = 0xff
			}
			w.Biases.Row(row)[0] = factor(9 + 18*row)
		}
		w.DequantizeRow(plain.Data.Row(row), row)
	}
	return w, plain
}

const nanRow = 4 // of everyCode

// sameProducts reports products [rows, N] that differ, or that are not NaN in nanRow.
func sameProducts(t *testing.T, what string, n int, got, want []byte) {
	t.Helper()
	for i := range len(want) / 4 {
		g := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:]))
		e := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:]))
		if nan := i%n == nanRow; g != e && !nan || nan && g == g {
			t.Errorf("%s: element %d of row %d is %g, expected %g", what, i%n, i/n, g, e)
		}
	}
}

// TestFloatModesEqualPlain checks that a product with MXFP8, NVFP4 or FP8 has the bits of a product
// with the same elements in float32, for few rows and for many.
func TestFloatModesEqualPlain(t *testing.T) {
	base := kernels.NewReference()
	defer base.Close()
	for _, mode := range floatModes {
		w, plain := everyCode(base, mode, 0) // some elements are subnormal
		x := kernels.RandomTensor(base, rand.New(rand.NewPCG(2, 2)), 21, w.K, 1)
		for _, isa := range cpu.Available() {
			d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1})
			for _, rows := range []int{1, 2, 3, 4, 5, 21} {
				some := x.RowRange(0, rows)
				sameProducts(t, fmt.Sprintf("%s, %s, %d rows", mode, isa, rows), w.N,
					product(d, w, some), product(d, plain, some))
			}
			d.Close()
		}
	}
}

// TestRowAloneEqualsRowInBatch checks that the bits of a row do not depend on the other rows of the
// batch, with rounded and with float32 activations.
func TestRowAloneEqualsRowInBatch(t *testing.T) {
	for _, isa := range cpu.Available() {
		for _, floats := range []bool{false, true} {
			d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2, Float32Activations: floats})
			r := rand.New(rand.NewPCG(5, 6))
			for _, w := range formats(d, r, 1, 19) {
				x := kernels.RandomTensor(d, r, 40, w.K, 1)
				all := product(d, w, x)
				for m := 1; m <= 40; m++ {
					from := r.IntN(40 - m + 1)
					got := product(d, w, x.RowRange(from, from+m))
					if !bytes.Equal(got, all[4*19*from:4*19*(from+m)]) {
						t.Errorf("%s, float32 activations %t, %s [19, %d]: rows [%d, %d) alone "+
							"differ from the same rows in a batch of 40", isa, floats,
							w.Format(), w.K, from, from+m)
						break
					}
				}
			}
			d.Close()
		}
	}
}

// TestExpertsEqualLinear checks that Experts gives the bits of a Linear with the chosen matrix,
// even if other rows choose differently.
func TestExpertsEqualLinear(t *testing.T) {
	const experts, n, tokens = 5, 21, 37
	for _, isa := range cpu.Available() {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 3})
		r := rand.New(rand.NewPCG(7, 8))
		for i, w := range formats(d, r, experts, n) {
			choices := 1 + i%3
			perPair := i%2 == 1
			xRows := tokens
			if perPair {
				xRows *= choices
			}
			x := kernels.RandomTensor(d, r, xRows, w.K, 1)
			ids := kernels.NewTensor(d, kernels.I32, tokens, choices+2).Columns(1, 1+choices)
			for m := range tokens {
				for j := range choices {
					// unevenly
					ids.RowRange(m, m+1).Int32s()[j] = int32(r.IntN(r.IntN(experts) + 1))
				}
			}
			out := kernels.NewTensor(d, kernels.F32, tokens*choices, n)
			d.Run(&Experts{X: x, IDs: ids, Parts: []Part{{W: w, Out: out}}})
			for pair := range tokens * choices {
				e := int(ids.RowRange(pair/choices, pair/choices+1).Int32s()[pair%choices])
				from := pair
				if !perPair {
					from /= choices
				}
				want := product(d, matrixOf(w, e), x.RowRange(from, from+1))
				if !bytes.Equal(want, out.RowRange(pair, pair+1).Bytes()) {
					t.Fatalf("%s, %s: output row %d differs from expert %d alone", isa, w.Format(),
						pair, e)
				}
			}
		}
		d.Close()
	}
}

// TestExpertOutsideRange checks that experts that do not exist give NaN without reading the weight.
func TestExpertOutsideRange(t *testing.T) {
	for _, isa := range append(cpu.Available(), cpu.Auto) {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2})
		o := &Experts{
			X:   kernels.FromFloat32s(d, 3, 1, []float32{1, 2, 3}),
			IDs: kernels.NewTensor(d, kernels.I32, 3, 2),
			Parts: []Part{{W: &kernels.Weight{Experts: 2, N: 1, K: 1,
				Data: kernels.FromFloat32s(d, 2, 1, []float32{10, 20})},
				Out: kernels.NewTensor(d, kernels.F32, 6, 1)}},
		}
		copy(o.IDs.Int32s(), []int32{0, -1, 2, 1, math.MaxInt32, math.MinInt32})
		want := []float64{10, math.NaN(), math.NaN(), 40, math.NaN(), math.NaN()}
		run := func(what string) {
			for i, w := range want {
				if g := float64(o.Parts[0].Out.Row(i)[0]); g != w &&
					!(math.IsNaN(g) && math.IsNaN(w)) {
					t.Errorf("%s: row %d: got %g, expected %g", what, i, g, w)
				}
			}
		}
		d.Run(o)
		run(isa.String())
		o.Reference()
		run("reference")
		copy(o.IDs.Int32s(), []int32{-1, -1, -1, -1, -1, -1}) // no row chose an expert
		want = []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}
		d.Run(o)
		run(isa.String())
		d.Close()
	}
}

// TestNaNSpreads checks that infinite and NaN activations give NaN.
func TestNaNSpreads(t *testing.T) {
	for _, isa := range cpu.Available() {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1})
		w := kernels.RandomWeight(d, rand.New(rand.NewPCG(1, 2)), 1, 3, 128, 4, 64, kernels.BF16, 1)
		for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x := kernels.RandomTensor(d, rand.New(rand.NewPCG(3, 4)), 1, 128, 1)
			x.Row(0)[5+40*i] = float32(bad)
			out := kernels.NewTensor(d, kernels.F32, 1, 3)
			d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: out}}})
			for n, v := range out.Row(0) {
				if !math.IsNaN(float64(v)) {
					t.Errorf("%s: activation %g: output %d is %g, expected NaN", isa, bad, n, v)
				}
			}
		}
		d.Close()
	}
}

// TestFloat32Activations checks that quantized weights are as exact as plain ones with float32
// activations.
func TestFloat32Activations(t *testing.T) {
	for _, c := range Cases() {
		reference := kernels.NewReference()
		build := func(d kernels.Device) [][]byte {
			op, outs := c.New(d, rand.New(rand.NewPCG(9, 9)))
			d.Run(op)
			var all [][]byte
			for _, o := range outs {
				all = append(all, kerneltest.Elements(o))
			}
			return all
		}
		want := build(reference)
		for _, isa := range cpu.Available() {
			d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2, Float32Activations: true})
			for i, got := range build(d) {
				if at, g, w := kerneltest.Differ(got, want[i], 2e-6, 2e-6); at >= 0 {
					t.Errorf("%s, %s: output %d element %d: got %g, expected %g", c.Name, isa, i,
						at, g, w)
				}
			}
			d.Close()
		}
		reference.Close()
	}
}

func TestFMARoundsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		a, b := float32(r.NormFloat64()), float32(r.NormFloat64())
		c := float32(r.NormFloat64() * math.Pow(2, float64(r.IntN(80)-40)))
		exact := new(big.Float).SetPrec(500).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		want, _ := exact.Add(exact, big.NewFloat(float64(c))).Float32()
		if got := fma(a, b, c); got != want {
			t.Fatalf("fma(%g, %g, %g): got %g, expected %g", a, b, c, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	r := rand.New(rand.NewPCG(1, 2))
	w := kernels.RandomWeight(d, r, 1, 8, 64, 4, 64, kernels.BF16, 1)
	tensor := func(rows, cols int) kernels.Tensor {
		return kernels.NewTensor(d, kernels.F32, rows, cols)
	}
	ids := kernels.NewTensor(d, kernels.I32, 2, 2)
	for i, op := range []kernels.Op{
		&Linear{X: tensor(2, 64)},
		&Linear{X: tensor(2, 64), Parts: []Part{{Out: tensor(2, 8)}}},
		&Linear{X: tensor(2, 128), Parts: []Part{{W: w, Out: tensor(2, 8)}}},
		&Linear{X: tensor(2, 64), Parts: []Part{{W: w, Out: tensor(2, 9)}}},
		&Linear{X: tensor(2, 64), Parts: []Part{{W: w, Out: tensor(3, 8)}}},
		&Linear{X: tensor(2, 64),
			Parts: []Part{{W: kernels.RandomWeight(d, r, 2, 8, 64, 0, 0, kernels.F32, 1),
				Out: tensor(2, 8)}}},
		&Experts{X: tensor(2, 64), IDs: ids, Parts: []Part{{W: w, Out: tensor(2, 8)}}},
		&Experts{X: tensor(3, 64), IDs: ids, Parts: []Part{{W: w, Out: tensor(4, 8)}}},
		&Experts{X: tensor(2, 64), IDs: tensor(2, 2), Parts: []Part{{W: w, Out: tensor(4, 8)}}},
		&Experts{X: tensor(2, 64), IDs: ids},
	} {
		if op.Check() == nil {
			t.Errorf("operator %d (%s): got no error", i, op.Name())
		}
	}
	for _, op := range []kernels.Op{
		&Linear{X: tensor(2, 64), Parts: []Part{{W: w, Out: tensor(2, 8)}}},
		&Experts{X: tensor(2, 64), IDs: ids, Parts: []Part{{W: w, Out: tensor(4, 8)}}},
		&Experts{X: tensor(4, 64), IDs: ids, Parts: []Part{{W: w, Out: tensor(4, 8)}}},
	} {
		if err := op.Check(); err != nil {
			t.Errorf("%s: %v", op.Name(), err)
		}
	}
}

func ExampleLinear() {
	d := kernels.NewCPU(cpu.Options{})
	defer d.Close()
	w := &kernels.Weight{Experts: 1, N: 2, K: 3,
		Data: kernels.FromFloat32s(d, 2, 3, []float32{1, 0, 2, 0, 1, -1})}
	out := kernels.NewTensor(d, kernels.F32, 1, 2)
	d.Run(&Linear{X: kernels.FromFloat32s(d, 1, 3, []float32{10, 20, 30}),
		Parts: []Part{{W: w, Out: out}}})
	fmt.Println(out.Row(0))
	// Output: [70 -10]
}

package rope

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }
func BenchmarkNV(b *testing.B)    { kerneltest.BenchNV(b, kerneltest.Timings(Cases())) }

// TestAnglesAreRoundedOnce rotates (1, 0) at small and large positions. The result must be the
// cosine and the sine, each rounded once from float64.
func TestAnglesAreRoundedOnce(t *testing.T) {
	const half = 37
	freq := Frequencies(2*half, 1e7)
	for _, isa := range cpu.Available() {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2})
		x := kernels.NewTensor(d, kernels.F32, 64, 2*half)
		for r := range x.Rows {
			for i := range half {
				x.Row(r)[i] = 1
			}
		}
		out := kernels.NewTensor(d, kernels.F32, 64, 2*half)
		for _, pos := range []int{0, 1, 1000, 65500, 262143 - 63, 1<<20 - 64, 10_000_000} {
			d.Run(&NormRope{
				X: x, InvFreq: kernels.FromFloat32s(d, 1, half, freq), Out: out, Heads: 1,
				Spans: []kernels.Span{{Rows: 64, Pos: pos}},
			})
			for r := range 64 {
				for i, f := range freq {
					sin, cos := math.Sincos(float64(pos+r) * float64(f))
					for j, want := range []float64{cos, sin} {
						got := float64(out.Row(r)[i+j*half])
						if math.Abs(got-want) > math.Abs(want)*0x1p-24*(1+1e-6)+1e-15 {
							t.Fatalf("%s: position %d, frequency %g, dimension %d: got %.10g, "+
								"expected %.10g", isa, pos+r, f, i+j*half, got, want)
						}
					}
				}
			}
		}
		d.Close()
	}
}

// TestSameBits checks that the bits of a sequence do not depend on whether it is one span or cut in
// two, at any row. Nor do they depend on its row in the batch, on another sequence before it, on
// the number of threads, on working in place, or on the instruction set, except for plain Go.
func TestSameBits(t *testing.T) {
	const heads, width, rotary, rows, pos = 3, 72, 40, 30, 4090
	r := rand.New(rand.NewPCG(3, 4))
	values, weight := make([]float32, rows*heads*width), make([]float32, width)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	for i := range weight {
		weight[i] = float32(r.NormFloat64())
	}
	run := func(isa cpu.ISA, threads, before int, inPlace bool, cut int) []byte {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: threads})
		defer d.Close()
		x := kernels.RandomTensor(d, r, (before+rows+1)*heads, width, 1)
		copy(x.Float32s()[before*heads*width:], values)
		o := NormRope{X: x, Out: x, Weight: kernels.FromFloat32s(d, 1, width, weight), Heads: heads,
			Eps: 1e-6, Scale: 1.1}
		o.InvFreq = kernels.FromFloat32s(d, 1, rotary/2, Frequencies(rotary, 1e4))
		o.PosStep, o.PosScale = 2050, kernels.FromFloat32s(d, 1, 3, []float32{1, 1.3, 1.7})
		if !inPlace {
			o.Out = kernels.NewTensor(d, kernels.F32, x.Rows, width)
		}
		o.Spans = []kernels.Span{{Row: before, Rows: cut, Pos: pos}}
		if before > 0 {
			o.Spans = append([]kernels.Span{{Rows: before - 1, Pos: 9}}, o.Spans...)
		}
		d.Run(&o)
		if cut < rows {
			o.Spans = []kernels.Span{{Row: before + cut, Rows: rows - cut, Pos: pos + cut}}
			d.Run(&o)
		}
		return kerneltest.Elements(o.Out.RowRange(before*heads, (before+rows)*heads))
	}
	var native []byte
	for _, isa := range cpu.Available() {
		want := run(isa, 1, 0, false, rows)
		expect := func(what string, got []byte) {
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s: the bits differ", isa, what)
			}
		}
		expect("in place", run(isa, 1, 0, true, rows))
		expect("later rows on 3 threads", run(isa, 3, 5, false, rows))
		for cut := 1; cut < rows; cut++ {
			expect(fmt.Sprintf("a cut at %d", cut), run(isa, 2, 2, false, cut))
		}
		if isa == cpu.Generic {
			continue
		}
		if native != nil {
			expect("the previous instruction set", native)
		}
		native = want
	}
}

func TestCheckNamesTheFault(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	for _, test := range []struct {
		name  string
		spoil func(*NormRope)
		want  string
	}{
		{"heads", func(o *NormRope) { o.Heads = 3 }, "8 rows for 3 heads"},
		{"no heads", func(o *NormRope) { o.Heads = 0 }, "0 heads"},
		{"frequencies", func(o *NormRope) { o.InvFreq = kernels.NewTensor(d, kernels.F32, 1, 17) },
			"17 frequencies"},
		{"weight", func(o *NormRope) { o.Weight = kernels.NewTensor(d, kernels.F32, 1, 31) },
			"weight: got"},
		{"factors", func(o *NormRope) {
			o.PosScale = kernels.NewTensor(d, kernels.F32, 1, 2)
		}, "pos_step: got 0 for 2 factors"},
		{"output", func(o *NormRope) { o.Out = o.Out.RowRange(0, 7) }, "out: got"},
		{"span", func(o *NormRope) { o.Spans = []kernels.Span{{Rows: 5}} }, "span 0"},
	} {
		x := kernels.NewTensor(d, kernels.F32, 8, 32)
		o := &NormRope{X: x, Out: x, InvFreq: kernels.NewTensor(d, kernels.F32, 1, 16), Heads: 2,
			Spans: []kernels.Span{{Rows: 4}}}
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		test.spoil(o)
		if err := o.Check(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(test.want)) {
			t.Errorf("%s: got %v, expected an error with %q", test.name, err, test.want)
		}
	}
}

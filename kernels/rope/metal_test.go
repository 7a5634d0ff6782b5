package rope

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

func run(t *testing.T, d kernels.Device, o *NormRope) {
	t.Helper()
	d.Run(o)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}

// TestMetalAngles checks that cosine and sine, computed without float64, are within 0.8 units in
// the last place of float32, and within 1e-11 near their zeros.
func TestMetalAngles(t *testing.T) {
	const half = 67
	d := kerneltest.Metal(t)
	freq := Frequencies(2*half, 1e7)
	// no model has these, but they must work too
	copy(freq[half-4:], []float32{-0.3, 0, 1e-40, 3.5})
	x, out, inv := kernels.NewTensor(d, kernels.F32, 16, 2*half),
		kernels.NewTensor(d, kernels.F32, 16, 2*half), kernels.FromFloat32s(d, 1, half, freq)
	for r := range x.Rows {
		for i := range half {
			x.Row(r)[i] = 1
		}
	}
	for _, pos := range []int{0, 1, 1000, 65500, 262143 - 15, 1<<20 - 16, 10_000_000} {
		run(t, d, &NormRope{X: x, InvFreq: inv, Out: out, Heads: 1,
			Spans: []kernels.Span{{Rows: 16, Pos: pos}}})
		for r := range 16 {
			for i, f := range freq {
				sin, cos := math.Sincos(float64(pos+r) * float64(f))
				for j, want := range []float64{cos, sin} {
					got := float64(out.Row(r)[i+j*half])
					_, exponent := math.Frexp(want)
					if place := math.Ldexp(1, exponent-24); math.Abs(got-want) > 0.8*place+1e-11 {
						t.Fatalf("position %d, frequency %g, %s: got %.10g, expected %.10g, off "+
							"by %.2f places", pos+r, f, []string{"cosine", "sine"}[j], got, want,
							math.Abs(got-want)/place)
					}
				}
			}
		}
	}
}

// TestMetalSameBits checks that a sequence gives the same bits as one span, with all cuts, one row
// at a time in a batch with other sequences, with fewer heads, and in place.
func TestMetalSameBits(t *testing.T) {
	const heads, width, rotary, rows, pos = 6, 72, 40, 9, 4090
	d := kerneltest.Metal(t)
	r := rand.New(rand.NewPCG(3, 4))
	x, weight := kernels.RandomTensor(d, r, rows*heads, width, 1),
		kernels.RandomTensor(d, r, 1, width, 1)
	inv := kernels.FromFloat32s(d, 1, rotary/2, Frequencies(rotary, 1e4))
	base := NormRope{X: x, Weight: weight, InvFreq: inv, Heads: heads, Eps: 1e-6, Scale: 1.1,
		PosScale: kernels.FromFloat32s(d, 1, 3, []float32{1, 1.3, 1.7}), PosStep: 2047}
	whole := base
	whole.Out, whole.Spans = kernels.NewTensor(d, kernels.F32, rows*heads, width),
		[]kernels.Span{{Rows: rows, Pos: pos}}
	run(t, d, &whole)
	want := whole.Out.Bytes()

	for cut := 1; cut < rows; cut++ {
		o := base
		o.Out = kernels.FromFloat32s(d, rows*heads, width, x.Float32s())
		o.X = o.Out
		for _, s := range []kernels.Span{{Rows: cut, Pos: pos},
			{Row: cut, Rows: rows - cut, Pos: pos + cut}} {
			o.Spans = []kernels.Span{s}
			run(t, d, &o)
		}
		if !bytes.Equal(o.Out.Bytes(), want) {
			t.Errorf("in place, cut at %d: the bits differ", cut)
		}
	}

	// The rows of the sequence in reverse order, each as a sequence of the batch.
	o := base
	o.X, o.Out, o.Spans = kernels.NewTensor(d, kernels.F32, rows*heads, width),
		kernels.NewTensor(d, kernels.F32, rows*heads, width), nil
	for i := range rows {
		o.Spans = append(o.Spans, kernels.Span{Row: i, Rows: 1, Pos: pos + rows - 1 - i})
		copy(o.X.RowRange(i*heads, (i+1)*heads).Bytes(),
			x.RowRange((rows-1-i)*heads, (rows-i)*heads).Bytes())
	}
	run(t, d, &o)
	for i := range rows {
		if !bytes.Equal(o.Out.RowRange(i*heads, (i+1)*heads).Bytes(),
			whole.Out.RowRange((rows-1-i)*heads, (rows-i)*heads).Bytes()) {
			t.Errorf("one row in a batch: position %d differs", pos+rows-1-i)
		}
	}

	one := base // head 0 of row 0 alone
	one.X, one.Out, one.Heads, one.Spans = x.RowRange(0, 1),
		kernels.NewTensor(d, kernels.F32, 1, width), 1, []kernels.Span{{Rows: 1, Pos: pos}}
	run(t, d, &one)
	if !bytes.Equal(one.Out.Bytes(), whole.Out.RowRange(0, 1).Bytes()) {
		t.Error("a single head differs")
	}
}

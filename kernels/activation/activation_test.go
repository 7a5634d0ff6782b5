package activation

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }
func BenchmarkNV(b *testing.B)    { kerneltest.BenchNV(b, kerneltest.Timings(Cases())) }

// operators builds each operator of the family on x, y and out.
var operators = []struct {
	name  string
	build func(x, y, out kernels.Tensor) kernels.Op
	// want is the output for x = 0, 100, 3 and y = 7, 2, 0. In float32 sigmoid(0) is 1/2 and
	// sigmoid(100) is 1.
	want []float32
}{
	{"gelu_mul", func(x, y, out kernels.Tensor) kernels.Op {
		return &GELUMul{Gate: x, Up: y, Out: out}
	}, []float32{0, 200, 0}},
	{"relu_mul", func(x, y, out kernels.Tensor) kernels.Op {
		return &ReLUMul{Gate: x, Up: y, Out: out}
	}, []float32{0, 200, 0}},
	{"sigmoid_mul", func(x, y, out kernels.Tensor) kernels.Op {
		return &SigmoidMul{X: y, Gate: x, Out: out}
	}, []float32{3.5, 2, 0}},
	{"add", func(x, y, out kernels.Tensor) kernels.Op { return &Add{X: x, Y: y, Out: out} },
		[]float32{7, 102, 3}},
	{"mul", func(x, y, out kernels.Tensor) kernels.Op { return &Mul{X: x, Y: y, Out: out} },
		[]float32{0, 200, 0}},
}

func TestByHand(t *testing.T) {
	for _, d := range append(kerneltest.Devices(t), kernels.NewReference()) {
		for _, o := range operators {
			out := kernels.NewTensor(d, kernels.F32, 1, 3)
			d.Run(o.build(kernels.FromFloat32s(d, 1, 3, []float32{0, 100, 3}),
				kernels.FromFloat32s(d, 1, 3, []float32{7, 2, 0}), out))
			sync(t, d)
			if !slices.Equal(out.Float32s(), o.want) {
				t.Errorf("%s, %s: got %v, expected %v", d.Name(), o.name, out.Float32s(), o.want)
			}
		}
	}
}

// TestRowAloneOrInBatch checks that a row gives the same bits alone, in a batch and in place, and
// that columns after the output do not change.
func TestRowAloneOrInBatch(t *testing.T) {
	const m, n, behind = 7, 1100, 5
	for _, d := range kerneltest.Devices(t) {
		r := rand.New(rand.NewPCG(5, 6))
		x, y := kernels.RandomTensor(d, r, m, n, 3), kernels.RandomTensor(d, r, m, n, 3)
		for _, o := range operators {
			wide := kernels.RandomTensor(d, r, m, n+behind, 1)
			before := kerneltest.Elements(wide.Columns(n, n+behind))
			batch := wide.Columns(0, n)
			d.Run(o.build(x, y, batch))
			sync(t, d)
			if !bytes.Equal(before, kerneltest.Elements(wide.Columns(n, n+behind))) {
				t.Errorf("%s, %s: wrote past its output", d.Name(), o.name)
			}
			for i := range m {
				one := kernels.FromFloat32s(d, 1, n, x.Row(i))
				d.Run(o.build(one, y.RowRange(i, i+1), one))
				sync(t, d)
				if !bytes.Equal(one.Bytes(), kerneltest.Elements(batch.RowRange(i, i+1))) {
					t.Errorf("%s, %s: row %d differs alone and in the batch", d.Name(), o.name, i)
				}
			}
		}
	}
}

func sync(t *testing.T, d kernels.Device) {
	t.Helper()
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	d := kernels.NewDryRun()
	x, narrow := kernels.NewTensor(d, kernels.F32, 2, 8), kernels.NewTensor(d, kernels.F32, 2, 7)
	for _, o := range operators {
		if err := o.build(x, x, x).Check(); err != nil {
			t.Errorf("%s: %v", o.name, err)
		}
		for _, bad := range []kernels.Op{o.build(x, narrow, x), o.build(x, x, narrow),
			o.build(x, kernels.Tensor{}, x), o.build(kernels.Tensor{}, x, x)} {
			if bad.Check() == nil {
				t.Errorf("%s: no error for %+v", o.name, bad)
			}
		}
	}
}

// TestSoftCapByHand has the arguments 0, atanh(1/2) and its negative, huge ones, and NaN. tanh z is
// z to within float32 for small z.
func TestSoftCapByHand(t *testing.T) {
	half, tiny, nan := float32(math.Atanh(0.5)), float32(1e-6), float32(math.NaN())
	x := []float32{0, 4 * half, -4 * half, 1e30, -1e30, tiny, -tiny, nan}
	want := []float32{0, 2, -2, 4, -4, tiny, -tiny, nan}
	for _, d := range append(kerneltest.Devices(t), kernels.NewReference()) {
		o := SoftCap{X: kernels.FromFloat32s(d, 1, len(x), x),
			Out: kernels.NewTensor(d, kernels.F32, 1, len(x)), Cap: 4}
		d.Run(&o)
		sync(t, d)
		for i, w := range want {
			got := float64(o.Out.Float32s()[i])
			if !(math.Abs(got-float64(w)) <= 3e-7*math.Abs(float64(w))) && !(w != w && got != got) {
				t.Errorf("%s: soft cap of %g: got %g, expected %g", d.Name(), x[i], got, w)
			}
		}
	}
	for _, most := range []float32{0, -1, nan, float32(math.Inf(1))} {
		y := kernels.NewTensor(kernels.NewDryRun(), kernels.F32, 2, 8)
		if (&SoftCap{X: y, Out: y, Cap: most}).Check() == nil {
			t.Errorf("no error for a cap of %g", most)
		}
	}
}

// TestSoftCapGivesTheSameBits checks that Metal gives the bits of the kernels in C, for arguments
// of all magnitudes in strided rows, in place.
func TestSoftCapGivesTheSameBits(t *testing.T) {
	const m, n = 5, 1100
	r := rand.New(rand.NewPCG(7, 8))
	x := make([]float32, m*n)
	for i := range x {
		x[i] = float32(math.Exp(float64(i%40)/2-12) * r.NormFloat64())
	}
	var want []byte
	for i, d := range kerneltest.Devices(t) {
		if isas := cpu.Available(); i < len(isas) && isas[i] == cpu.Generic {
			continue // Go's own tanh, which is the reference
		}
		wide := kernels.NewTensor(d, kernels.F32, m, n+3)
		for row := range m {
			copy(wide.Row(row), x[row*n:(row+1)*n])
		}
		in := wide.Columns(0, n)
		d.Run(&SoftCap{X: in, Out: in, Cap: 30})
		sync(t, d)
		got := kerneltest.Elements(in)
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the bits differ", d.Name())
		}
	}
}

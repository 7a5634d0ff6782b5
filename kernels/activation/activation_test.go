package activation

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
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
	{"sigmoid_mul", func(x, y, out kernels.Tensor) kernels.Op {
		return &SigmoidMul{X: y, Gate: x, Out: out}
	}, []float32{3.5, 2, 0}},
	{"add", func(x, y, out kernels.Tensor) kernels.Op { return &Add{X: x, Y: y, Out: out} },
		[]float32{7, 102, 3}},
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

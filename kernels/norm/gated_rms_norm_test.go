package norm

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// TestGatedRMSNormByHand has x = (3, 4) with a mean square of 12.5, and the weight sqrt(12.5),
// which cancels the norm: rmsnorm(x) * weight = x. silu(0) is 0 and silu(100) is 100, so the gates
// 100 and 0 give (300, 0).
func TestGatedRMSNormByHand(t *testing.T) {
	for _, d := range append(kerneltest.Devices(t), kernels.NewReference()) {
		w := float32(math.Sqrt(12.5))
		o := GatedRMSNorm{X: kernels.FromFloat32s(d, 1, 2, []float32{3, 4}),
			Gate:   kernels.FromFloat32s(d, 1, 2, []float32{100, 0}),
			Weight: kernels.FromFloat32s(d, 1, 2, []float32{w, w}),
			Out:    kernels.NewTensor(d, kernels.F32, 1, 2)}
		d.Run(&o)
		sync(t, d)
		if got := o.Out.Float32s(); math.Abs(float64(got[0])-300) > 1e-4 || got[1] != 0 {
			t.Errorf("%s: got %v, expected 300 0", d.Name(), got)
		}
	}
}

// TestRowOfZeros checks that Eps prevents a division by zero.
func TestRowOfZeros(t *testing.T) {
	for _, d := range append(kerneltest.Devices(t), kernels.NewReference()) {
		x, ones, out := kernels.FromFloat32s(d, 1, 3, make([]float32, 3)),
			kernels.FromFloat32s(d, 1, 3, []float32{1, 1, 1}),
			kernels.FromFloat32s(d, 2, 3, make([]float32, 6))
		d.Run(&GatedRMSNorm{X: x, Gate: ones, Weight: ones, Out: out.RowRange(0, 1), Eps: 1e-6})
		d.Run(&RMSNorm{X: x, Weight: ones, Out: out.RowRange(1, 2), Eps: 1e-6})
		sync(t, d)
		if got := out.Float32s(); !slices.Equal(got, make([]float32, 6)) {
			t.Errorf("%s: got %v, expected zeros", d.Name(), got)
		}
	}
}

// TestGatedRMSNormRowAloneOrInBatch checks that a row gives the same bits alone, in a batch, and in
// place of its input or its gate.
func TestGatedRMSNormRowAloneOrInBatch(t *testing.T) {
	const m, n = 200, 100
	for _, d := range kerneltest.Devices(t) {
		r := rand.New(rand.NewPCG(7, 8))
		x, gate, weight := kernels.RandomTensor(d, r, m, n, 3),
			kernels.RandomTensor(d, r, m, 2*n, 3).Columns(n, 2*n),
			kernels.RandomTensor(d, r, 1, n, 1)
		batch := kernels.NewTensor(d, kernels.F32, m, n)
		d.Run(&GatedRMSNorm{X: x, Gate: gate, Weight: weight, Out: batch, Eps: 1e-6})
		sync(t, d)
		for i := range m {
			oneX, oneGate := kernels.FromFloat32s(d, 1, n, x.Row(i)),
				kernels.FromFloat32s(d, 1, n, gate.Row(i))
			out := []kernels.Tensor{oneX, oneGate}[i%2]
			d.Run(&GatedRMSNorm{X: oneX, Gate: oneGate, Weight: weight, Out: out, Eps: 1e-6})
			sync(t, d)
			if !bytes.Equal(out.Bytes(), kerneltest.Elements(batch.RowRange(i, i+1))) {
				t.Errorf("%s: row %d differs alone and in the batch", d.Name(), i)
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

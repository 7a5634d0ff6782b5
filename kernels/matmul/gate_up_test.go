package matmul

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

// TestGateUpMatchesProducts checks on every device that GateUp is silu of the gate's product times
// the other product, and that the last row gives the same bits alone and in the batch. On Metal one
// pass and three must give the same bits.
func TestGateUpMatchesProducts(t *testing.T) {
	for _, d := range kerneltest.Devices(t) {
		for _, s := range []shape{
			{m: 3, k: 70, n: []int{19}, dtype: kernels.F16},
			{m: 11, k: 128, n: []int{37}, bits: 4, group: 64, dtype: kernels.BF16},
			{m: 4, k: 96, n: []int{1030}, bits: 6, group: 32, dtype: kernels.F16},
			{m: 5, k: 128, n: []int{21}, experts: 4, choices: 3, bits: 4, group: 32,
				dtype: kernels.BF16},
			{m: 3, k: 1120, n: []int{9}, bits: 4, group: 32, dtype: kernels.BF16},
			{m: 2, k: 1024, n: []int{11}, experts: 3, choices: 2, bits: 8, group: 64,
				dtype: kernels.F16},
			{m: 5, k: 40, n: []int{9}, experts: 3, choices: 2, dtype: kernels.F32},
		} {
			r := rand.New(rand.NewPCG(uint64(s.m), uint64(s.k)))
			o := s.gateUp(d, r, s.bits)
			if s.experts > 0 {
				o.IDs.Int32s()[1] = int32(s.experts) // none
			}
			gate, up := like(d, o.Out), like(d, o.Out)
			parts := []Part{{W: o.Gate, Out: gate}, {W: o.Up, Out: up}}
			apart := *o // with prefill ranges Metal computes the products first
			apart.Out, apart.Prefill = like(d, o.Out), Prefill{{1, 1}}
			last := *o
			last.X, last.Out, last.Temp = o.X.RowRange(s.m-1, s.m),
				like(d, o.Out.RowRange(0, max(s.choices, 1))), o.Temp.RowRange(0, max(s.choices, 1))
			d.Run(o)
			d.Run(&apart)
			if s.experts > 0 {
				last.IDs = o.IDs.RowRange(s.m-1, s.m)
				d.Run(&Experts{X: o.X, IDs: o.IDs, Parts: parts})
			} else {
				d.Run(&Linear{X: o.X, Parts: parts})
			}
			d.Run(&last)
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			got := kerneltest.Elements(o.Out)
			if s.experts > 0 && o.Out.Row(1)[0] == o.Out.Row(1)[0] {
				t.Errorf("%s, %s: a row without an expert gives %g, expected NaN", d.Name(),
					s.name(), o.Out.Row(1)[0])
			}
			if !sameNumbers(o.Out, apart.Out) {
				t.Errorf("%s, %s: one pass and three passes give different bits", d.Name(),
					s.name())
			}
			if n := len(last.Out.Bytes()); !bytes.Equal(last.Out.Bytes(), got[len(got)-n:]) {
				t.Errorf("%s, %s: the last row alone has different bits", d.Name(), s.name())
			}
			for i := range gate.Rows {
				for j, g := range gate.Row(i) {
					x := float64(g)
					want := x / (1 + math.Exp(-x)) * float64(up.Row(i)[j])
					if y := float64(o.Out.Row(i)[j]); math.Abs(y-want) > 1e-6*math.Abs(want) {
						t.Fatalf("%s, %s: row %d, column %d is %g, expected %g", d.Name(), s.name(),
							i, j, y, want)
					}
				}
			}
		}
	}
}

func like(d kernels.Device, t kernels.Tensor) kernels.Tensor {
	return kernels.NewTensor(d, kernels.F32, t.Rows, t.Cols)
}

// sameNumbers compares bits, treating all NaNs as equal.
func sameNumbers(a, b kernels.Tensor) bool {
	for i := range a.Rows {
		for j, x := range a.Row(i) {
			if y := b.Row(i)[j]; math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
				return false
			}
		}
	}
	return true
}

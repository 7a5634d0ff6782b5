package embedding

import (
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

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

// TestMetalSplitVocabulary looks up tokens in matrices that are longer than a Metal buffer.
func TestMetalSplitVocabulary(t *testing.T) {
	const vocabulary, h = 900, 256
	var cases []kernels.Case
	for _, bits := range []int{0, 4, 5} {
		cases = append(cases, kernels.Case{
			Name: fmt.Sprintf("%d-bit", bits), RelTol: 1.8e-7, Why: "as in Cases",
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Lookup{Tokens: kernels.NewTensor(d, kernels.I32, 20, 1),
					W: kernels.RandomWeight(d, r, 1, vocabulary, h, bits, 64, kernels.BF16,
						1),
					Out: kernels.NewTensor(d, kernels.F32, 20, h)}
				for i := range o.Tokens.Int32s() {
					o.Tokens.Int32s()[i] = int32(i * (vocabulary - 1) / 19)
				}
				return o, []kernels.Tensor{o.Out}
			}})
	}
	if split := kerneltest.RunMetal(t, cases); split >= 0 && split < len(cases) {
		t.Errorf("short buffers have split %d cases, expected %d", split, len(cases))
	}
}

func TestMetalTokenOutsideVocabulary(t *testing.T) {
	d := kerneltest.Metal(t)
	tokens := []int32{-1, 2, 3, 0, math.MinInt32}
	o := &Lookup{
		Tokens: kernels.NewTensor(d, kernels.I32, 5, 1),
		W: &kernels.Weight{Experts: 1, N: 3, K: 2,
			Data: kernels.FromFloat32s(d, 3, 2, []float32{1, 2, 3, 4, 5, 6})},
		Out: kernels.NewTensor(d, kernels.F32, 5, 2),
	}
	copy(o.Tokens.Int32s(), tokens)
	d.Run(o)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	for r, want := range []float32{-1, 5, -1, 1, -1} {
		got := o.Out.Row(r)
		if want < 0 && !(math.IsNaN(float64(got[0])) && math.IsNaN(float64(got[1]))) || want > 0 &&
			(got[0] != want || got[1] != want+1) {
			t.Errorf("token %d: got %v", tokens[r], got)
		}
	}
}

func TestTokenOutsideVocabulary(t *testing.T) {
	for _, isa := range cpu.Available() {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2})
		o := &Lookup{
			Tokens: kernels.NewTensor(d, kernels.I32, 5, 1),
			W: &kernels.Weight{Experts: 1, N: 3, K: 2,
				Data: kernels.FromFloat32s(d, 3, 2, []float32{1, 2, 3, 4, 5, 6})},
			Out: kernels.NewTensor(d, kernels.F32, 5, 2),
		}
		copy(o.Tokens.Int32s(), []int32{-1, 2, 3, 0, math.MinInt32})
		d.Run(o)
		for r, want := range []float32{-1, 5, -1, 1, -1} {
			got := o.Out.Row(r)
			if want < 0 && !(math.IsNaN(float64(got[0])) && math.IsNaN(float64(got[1]))) ||
				want > 0 && (got[0] != want || got[1] != want+1) {
				t.Errorf("%s: token %d: got %v", isa, o.Tokens.Int32s()[r], got)
			}
		}
		d.Close()
	}
}

func TestRowsCheck(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	x, out := kernels.NewTensor(d, kernels.F32, 2, 4), kernels.NewTensor(d, kernels.F32, 1, 4)
	for _, bad := range []int32{-1, 2} {
		if (&Rows{X: x, Indices: []int32{bad}, Out: out}).Check() == nil {
			t.Errorf("index %d of 2 rows: got no error", bad)
		}
	}
	if err := (&Rows{X: x, Indices: []int32{1}, Out: out}).Check(); err != nil {
		t.Error(err)
	}
}

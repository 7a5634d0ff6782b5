package matmul

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

// splitDevice returns a CPU that multiplies split floats, and skips the test if there is none.
func splitDevice(t testing.TB, threads int) kernels.Device {
	if cpu.Best() != cpu.AMX || !hasSplit {
		t.Skip("this processor or this build has no matrix unit (AMX)")
	}
	return kernels.NewCPU(cpu.Options{Threads: threads})
}

// splitShapes are weights whose rows end within a panel, a step and a part of a panel.
var splitShapes = []struct {
	n, k  int
	dtype kernels.DType
}{{37, 133, kernels.F32}, {32, 256, kernels.F32}, {70, 300, kernels.BF16}, {1, 1, kernels.F32},
	{16, 1056, kernels.BF16}, {33, 31, kernels.F16}, {64, 512, kernels.F16}}

func splitProduct(d kernels.Device, w *kernels.Weight, x kernels.Tensor) kernels.Tensor {
	out := kernels.NewTensor(d, kernels.F32, x.Rows, w.N+3).Columns(1, 1+w.N)
	d.Run(&Linear{X: x, Parts: []Part{{W: w, Out: out}}, Split: true})
	return out
}

// head returns x rounded to bfloat16.
func head(x float32) float32 {
	u := math.Float32bits(x)
	return math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff)
}

// splitDot is split.c in plain Go.
func splitDot(x, w []float32, bf16 bool) float32 {
	var sum float32
	for at := 0; at < len(x); at += splitStep {
		term := func(f func(x, w float32) (float32, float32)) {
			var apart [2]float32
			for i := at; i < min(at+splitStep, len(x)); i++ {
				a, b := f(x[i], w[i])
				apart[i%2] = fma(a, b, apart[i%2])
			}
			sum += apart[0] + apart[1]
		}
		if !bf16 {
			term(func(x, w float32) (float32, float32) { return head(x), head(w - head(w)) })
		}
		term(func(x, w float32) (float32, float32) { return head(x), head(w) })
		term(func(x, w float32) (float32, float32) { return head(x - head(x)), head(w) })
	}
	return sum
}

// TestSplitProducts checks products of split floats: they have the bits of plain Go, for any number
// of rows and threads, and errors of at most 2^-16 of the sum of all products' sizes.
func TestSplitProducts(t *testing.T) {
	d, alone := splitDevice(t, 3), splitDevice(t, 1)
	defer d.Close()
	defer alone.Close()
	r := rand.New(rand.NewPCG(11, 12))
	for _, s := range splitShapes {
		w := kernels.RandomWeight(d, r, 1, s.n, s.k, 0, 0, s.dtype, 1)
		x := kernels.RandomTensor(d, r, 83, s.k, 1)
		name := fmt.Sprintf("%s [%d, %d]", s.dtype, s.n, s.k)
		all := splitProduct(d, w, x)
		row := make([]float32, s.k)
		for n := range s.n {
			w.DequantizeRow(row, n)
			for m := range x.Rows {
				got, want := all.Row(m)[n], splitDot(x.Row(m), row, s.dtype == kernels.BF16)
				if got != want {
					t.Fatalf("%s: output %d of row %d is %g, expected %g", name, n, m, got, want)
				}
				var sum, size float64
				for i, v := range x.Row(m) {
					sum += float64(v) * float64(row[i])
					size += math.Abs(float64(v) * float64(row[i]))
				}
				if e := math.Abs(float64(got) - sum); e > size*0x1p-16 {
					t.Fatalf("%s: output %d of row %d is %g, expected %g to %g", name, n, m, got,
						sum, size*0x1p-16)
				}
			}
		}
		for m := 1; m <= x.Rows; m++ {
			from := r.IntN(x.Rows - m + 1)
			got := kerneltest.Elements(splitProduct(alone, w, x.RowRange(from, from+m)))
			if !bytes.Equal(got, kerneltest.Elements(all.RowRange(from, from+m))) {
				t.Fatalf("%s: rows [%d, %d) alone differ from the same rows in a batch", name, from,
					from+m)
			}
		}
	}
}

// TestSplitNaN checks that infinite and NaN activations give NaN in their row alone.
func TestSplitNaN(t *testing.T) {
	d := splitDevice(t, 1)
	defer d.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16} {
		w := kernels.RandomWeight(d, r, 1, 5, 70, 0, 0, dtype, 1)
		for i, bad := range []float32{float32(math.NaN()), math.Float32frombits(0x7fffffff),
			float32(math.Inf(1)), float32(math.Inf(-1))} {
			x := kernels.RandomTensor(d, r, 20, 70, 1)
			x.Row(17)[3+16*i] = bad
			out := splitProduct(d, w, x)
			for m := range x.Rows {
				for n, v := range out.Row(m) {
					if (v != v) != (m == 17) {
						t.Errorf("activation %g: output %d of row %d is %g", bad, n, m, v)
					}
				}
			}
		}
	}
}

// TestSplitBesideOthers checks an operator whose weights are of floats and of codes, and that a
// device without a matrix unit ignores Split.
func TestSplitBesideOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, isa := range cpu.Available() {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 2})
		x := kernels.RandomTensor(d, r, 40, 128, 1)
		plain := kernels.RandomWeight(d, r, 1, 40, 128, 0, 0, kernels.BF16, 1)
		codes := kernels.RandomWeight(d, r, 1, 40, 128, 4, 64, kernels.BF16, 1)
		both := []Part{{W: codes, Out: kernels.NewTensor(d, kernels.F32, 40, 40)},
			{W: plain, Out: kernels.NewTensor(d, kernels.F32, 40, 40)}}
		d.Run(&Linear{X: x, Parts: both, Split: true})
		if !bytes.Equal(kerneltest.Elements(both[0].Out), product(d, codes, x)) {
			t.Errorf("%s: the product of codes is another one beside split floats", isa)
		}
		want := product(d, plain, x)
		if isa == cpu.AMX && hasSplit {
			want = kerneltest.Elements(splitProduct(d, plain, x))
		}
		if !bytes.Equal(kerneltest.Elements(both[1].Out), want) {
			t.Errorf("%s: the product of floats is another one beside codes", isa)
		}
		d.Close()
	}
}

// BenchmarkSplit compares products of split floats with those of whole ones.
func BenchmarkSplit(b *testing.B) {
	for _, s := range []struct {
		n, k  int
		dtype kernels.DType
	}{{1536, 384, kernels.F32}, {768, 3072, kernels.F32}, {3072, 1024, kernels.BF16},
		{1024, 3072, kernels.BF16}} {
		for _, rows := range []int{16, 512, 2048} {
			for _, split := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s_%dx%d_%d_rows_%t", s.dtype, s.n, s.k, rows, split),
					func(b *testing.B) {
						d := splitDevice(b, 1)
						defer d.Close()
						r := rand.New(rand.NewPCG(1, 1))
						w := kernels.RandomWeight(d, r, 1, s.n, s.k, 0, 0, s.dtype, 1)
						x := kernels.RandomTensor(d, r, rows, s.k, 1)
						out := kernels.NewTensor(d, kernels.F32, rows, s.n)
						op := &Linear{X: x, Parts: []Part{{W: w, Out: out}}, Split: split}
						for b.Loop() {
							d.Run(op)
						}
						b.ReportMetric(float64(rows)*float64(s.n)*float64(s.k)*float64(b.N)/
							b.Elapsed().Seconds()/1e9, "Gmadd/s")
					})
			}
		}
	}
}

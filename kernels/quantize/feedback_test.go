package quantize

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// layer is a small linear layer with correlated inputs.
type layer struct {
	n, rows int
	inputs  [][]float32
	weights []float32
}

func newTestLayer(seed uint64, n, rows, inputs int) layer {
	r := rand.New(rand.NewPCG(seed, 5))
	l := layer{n: n, rows: rows}
	for range inputs {
		x, common := make([]float32, n), float32(r.NormFloat64())
		for j := range x {
			x[j] = common*float32(1+j%3) + float32(r.NormFloat64())*float32(1+j%7)/4
		}
		l.inputs = append(l.inputs, x)
	}
	for range n * rows {
		l.weights = append(l.weights, float32(r.NormFloat64()))
	}
	return l
}

func (l layer) hessian(isa cpu.ISA, threads int) *Hessian {
	h := NewHessian(l.n, isa, threads)
	h.Add(len(l.inputs), func(i int) []float32 { return l.inputs[i] }, 1)
	return h
}

const testDamping = 0.01

// dense returns H with its damping, by the definition.
func (l layer) dense() [][]float64 {
	h, mean := make([][]float64, l.n), 0.0
	for i := range h {
		h[i] = make([]float64, l.n)
		for j := range h[i] {
			for _, x := range l.inputs {
				h[i][j] += float64(x[i]) * float64(x[j])
			}
		}
		mean += h[i][i] / float64(l.n)
	}
	for i := range h {
		h[i][i] += testDamping * mean
	}
	return h
}

// weighted returns e H eᵀ for the errors of a row.
func weighted(h [][]float64, e []float64) (sum float64) {
	for i := range e {
		for j := range e {
			sum += e[i] * h[i][j] * e[j]
		}
	}
	return sum
}

// inverse returns the inverse of a matrix by Gauss and Jordan.
func inverse(a [][]float64) [][]float64 {
	n := len(a)
	m := make([][]float64, n)
	for i := range m {
		m[i] = append(slices.Clone(a[i]), make([]float64, n)...)
		m[i][n+i] = 1
	}
	for c := range n {
		for i := range n {
			if i == c {
				continue
			}
			f := m[i][c] / m[c][c]
			for k := range m[i] {
				m[i][k] -= f * m[c][k]
			}
		}
		f := m[c][c]
		for k := range m[c] {
			m[c][k] /= f
		}
	}
	for i := range m {
		m[i] = m[i][n:]
	}
	return m
}

// values returns what packed rows stand for.
func (f Format) values(p Packed, n, row int, dtype kernels.DType) []float64 {
	codes, all := make([]uint8, n), make([]float64, n)
	getCodes(codes, p.Codes[row*f.CodeBytes(n):], f.Bits)
	for i, c := range codes {
		g := (row*n + i) / f.Group
		all[i] = element(c, getFloat(p.Scales, g, dtype), getFloat(p.Biases, g, dtype))
	}
	return all
}

// TestFeedbackIsGPTQ rounds a layer by the update of the paper. After each column, its error over
// the diagonal of the inverse Hessian of the columns that are left changes those columns. With the
// scales and biases of PackWithFeedback, that gives its codes.
func TestFeedbackIsGPTQ(t *testing.T) {
	for _, bits := range []int{2, 3, 4, 8} {
		l := newTestLayer(1, 96, 7, 300)
		f := Format{Mode: kernels.Affine, Bits: bits, Group: 32}
		h := l.hessian(cpu.Best(), 2)
		if err := h.Factor(testDamping); err != nil {
			t.Fatal(err)
		}
		p := f.packed(l.n*l.rows, kernels.F32)
		got := f.PackWithFeedback(h, p, encode(l.weights, kernels.F32), kernels.F32)
		if !(got.Feedback < got.Plain) {
			t.Errorf("%d bits: error %g, plain %g", bits, got.Feedback, got.Plain)
		}
		dense, sum := l.dense(), 0.0
		for row := range l.rows {
			w := make([]float64, l.n)
			for i := range w {
				w[i] = float64(l.weights[row*l.n+i])
			}
			want, given := make([]float64, l.n), slices.Clone(w)
			packed := f.values(p, l.n, row, kernels.F32)
			left := dense
			for i := range l.n {
				g := (row*l.n + i) / f.Group
				s, b := getFloat(p.Scales, g, kernels.F32), getFloat(p.Biases, g, kernels.F32)
				c := math.RoundToEven((w[i] - b) / s)
				c = max(0, min(c, float64(int(1)<<bits-1)))
				want[i] = float64(float32(c*s + b))
				inv := inverse(left)
				for k := i + 1; k < l.n; k++ {
					w[k] -= (w[i] - want[i]) / inv[0][0] * inv[0][k-i]
				}
				left = make([][]float64, l.n-i-1)
				for k := range left {
					left[k] = dense[i+1+k][i+1:]
				}
			}
			e := make([]float64, l.n)
			for i := range e {
				if math.Abs(want[i]-packed[i]) > 1e-6 {
					t.Fatalf("%d bits: row %d, column %d is %g, expected %g", bits, row, i,
						packed[i], want[i])
				}
				e[i] = given[i] - packed[i]
			}
			sum += weighted(dense, e)
		}
		if math.Abs(sum/got.Feedback-1) > 1e-6 {
			t.Errorf("%d bits: error %g, by the definition %g", bits, got.Feedback, sum)
		}
	}
}

// TestFeedbackIsDeterministic: neither threads nor instruction sets change a bit.
func TestFeedbackIsDeterministic(t *testing.T) {
	l := newTestLayer(2, 192, 37, 210)
	for _, dtype := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		f := Format{Mode: kernels.Affine, Bits: 3, Group: 64}
		var first Packed
		for _, isa := range append(cpu.Available(), cpu.Generic) {
			for _, threads := range []int{1, 2, 5} {
				h := l.hessian(isa, threads)
				if err := h.Factor(testDamping); err != nil {
					t.Fatal(err)
				}
				p := f.packed(l.n*l.rows, dtype)
				f.PackWithFeedback(h, p, encode(l.weights, dtype), dtype)
				if first.Codes == nil {
					first = p
				}
				if !bytes.Equal(p.Codes, first.Codes) || !bytes.Equal(p.Scales, first.Scales) ||
					!bytes.Equal(p.Biases, first.Biases) {
					t.Fatalf("%s: %s with %d threads gives other bits", dtype, isa, threads)
				}
			}
		}
	}
}

// TestFeedbackIsNeverWorse: no row has a larger weighted error than Pack gives it, for hard groups,
// inputs that are all zero, and fewer inputs than columns.
func TestFeedbackIsNeverWorse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, inputs := range []int{0, 3, 200} {
		for _, f := range formats() {
			if f.Mode != kernels.Affine {
				continue
			}
			for _, dtype := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
				l := newTestLayer(4, 2*f.Group, 0, inputs)
				l.weights = hardGroups(r, f.Group, dtype)
				l.weights = l.weights[:len(l.weights)/l.n*l.n]
				l.rows = len(l.weights) / l.n
				h := l.hessian(cpu.Best(), 2)
				if err := h.Factor(testDamping); err != nil {
					t.Fatal(err)
				}
				data := encode(l.weights, dtype)
				decode(l.weights, data, dtype)
				own, plain := f.packed(len(l.weights), dtype), f.packed(len(l.weights), dtype)
				f.PackWithFeedback(h, own, data, dtype)
				f.Pack(cpu.Best(), plain, data, dtype)
				for row := range l.rows {
					a, b := f.values(own, l.n, row, dtype), f.values(plain, l.n, row, dtype)
					var sums [2]float64
					for k, values := range [][]float64{a, b} {
						e := make([]float64, l.n)
						for i := range e {
							e[i] = float64(l.weights[row*l.n+i]) - values[i]
						}
						sums[k] = h.error(e)
					}
					if sums[0] > sums[1]*(1+1e-9) {
						t.Errorf("%v, %s, %d inputs: row %d has the error %g, plain %g", f, dtype,
							inputs, row, sums[0], sums[1])
					}
				}
			}
		}
	}
}

// error returns the weighted error of a row.
func (h *Hessian) error(e []float64) (sum float64) {
	for j := range e {
		v := e[j]
		for k := range j {
			v += e[k] * h.a.data[k*h.n+j]
		}
		sum += h.a.data[j*h.n+j] * v * v
	}
	return sum
}

// TestHessianRefuses says what inputs cannot be used.
func TestHessianRefuses(t *testing.T) {
	h := NewHessian(32, cpu.Best(), 1)
	bad := make([]float32, 32)
	bad[5] = float32(math.NaN())
	h.Add(1, func(int) []float32 { return bad }, 1)
	if err := h.Factor(testDamping); err == nil {
		t.Error("inputs that are no numbers were accepted")
	}
}

package adapter

// Fusing: an adapter's part of the rows of a matrix, for who writes the sum.

import (
	"math"
	"strings"

	"headroom/engine/ops"
	"headroom/kernels"
)

// Fusion is what an adapter adds to a matrix, or to a stack of matrices.
type Fusion struct {
	n, k, rank int
	a, b       []float32 // as in change
	magnitude  []float32 // of DoRA; nil: none
}

// Find returns the module that changes the matrix called name, such as
// "model.layers.0.mlp.up_proj.weight", or nil.
func (a *Adapter) Find(name string) *Module {
	path, ok := strings.CutSuffix(canonical(name), ".weight")
	for i := range a.Modules {
		if ok && canonical(a.Modules[i].Name) == path {
			return &a.Modules[i]
		}
	}
	return nil
}

// Fuse returns what m, a module of a, adds to a matrix [n, k] or a stack [e, n, k]. tied says that
// the matrix is an embedding that is also the head. Errors are Problems.
func (a *Adapter) Fuse(m *Module, shape []int, tied bool) (*Fusion, error) {
	w := &kernels.Weight{Experts: 1}
	switch len(shape) {
	case 2:
		w.N, w.K = shape[0], shape[1]
	case 3:
		w.Experts, w.N, w.K = shape[0], shape[1], shape[2]
	default:
		return nil, notFor("it changes %.200s, which is no matrix", m.Name)
	}
	use := ops.Use{Product: true}
	if sa, sb := m.A.Shape, m.B.Shape; m.Embedding || !a.PEFT && len(sa) == 2 && len(shape) == 2 &&
		sa[0] == w.N && sb[1] == w.K && (w.N != w.K || strings.Contains(m.Name, "embed")) {
		use.Lookup = true
	}
	switch {
	case use.Lookup && a.PEFT && m.Magnitude.Values != nil:
		return nil, unsupported("it changes the embedding %.200s by PEFT's DoRA, whose factors "+
			"are those of columns", m.Name)
	case use.Lookup && tied && a.PEFT:
		return nil, unsupported("it changes the embedding %.200s, which is also the head, and not "+
			"the head", m.Name)
	case m.Magnitude.Values != nil && w.Experts > 1:
		return nil, doraOfExperts(m)
	case m.Magnitude.Values != nil && len(m.Magnitude.Values) != w.N:
		return nil, m.wrongMagnitude(w.N)
	}
	x, y, err := (&Fitted{Adapter: a}).matrices(m, w, w.N, use)
	if err != nil {
		return nil, err
	}
	return &Fusion{n: w.N, k: w.K, rank: m.Rank, a: x, b: y, magnitude: m.Magnitude.Values}, nil
}

// Add changes values, row number row of the matrix or stack, into that of the fused one.
func (f *Fusion) Add(values []float32, row int) {
	a := f.a[row/f.n*f.rank*f.k:]
	for r := range f.rank {
		s := f.b[row*f.rank+r]
		for j, x := range a[r*f.k:][:f.k] {
			values[j] += s * x
		}
	}
	if f.magnitude == nil {
		return
	}
	sum := 0.0
	for _, x := range values {
		sum += float64(x) * float64(x)
	}
	if sum > 0 {
		factor := f.magnitude[row] / float32(math.Sqrt(sum))
		for j := range values {
			values[j] *= factor
		}
	}
}

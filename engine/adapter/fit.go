package adapter

// Fitting an adapter to a loaded model: which weights it changes, and what the operators add.

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/engine/problem"
	"headroom/kernels"
)

// Model is what Fit has to know of a loaded model.
type Model struct {
	// Linears are the weights of its modules, by name; see checkpoint.Weights.Linears.
	Linears map[string][]*kernels.Weight
	// Uses says how passes use the weights; see ops.Context.RecordUses.
	Uses map[*kernels.Weight]ops.Use
}

// Fitted is an adapter that fits a model, in memory of the host. Place gives it to a device.
type Fitted struct {
	*Adapter
	changes map[*kernels.Weight]*change
	bytes   int
}

// change is an ops.LowRank in memory of the host. The slices of several may overlap.
type change struct {
	experts, rank, n, k int
	a, b                []float32
	expand              []float32 // of a lookup; its table is b
	factor              []float32 // of rows, of DoRA
	ones                []float32 // [k], of a lookup whose rows have factors
	columnFactor        []float32 // of a lookup, of PEFT's DoRA
	product, lookup     bool
}

// prefixes are what the names of modules begin with, depending on who has converted a model.
var prefixes = []string{"language_model.", "model.", "backbone."}

// canonical returns a module's name without these.
func canonical(name string) string {
	for again := true; again; {
		again = false
		for _, p := range prefixes {
			if rest, ok := strings.CutPrefix(name, p); ok {
				name, again = rest, true
			}
		}
	}
	return name
}

// Fit finds the weights of m that a changes. It may read them, so it takes a while for DoRA. Errors
// are Problems.
func Fit(a *Adapter, m Model) (*Fitted, error) {
	byName := map[string][]*kernels.Weight{}
	for name, weights := range m.Linears {
		byName[canonical(name)] = weights
	}
	f := &Fitted{Adapter: a, changes: map[*kernels.Weight]*change{}}
	for i := range a.Modules {
		module := &a.Modules[i]
		weights := m.Linears[module.Name]
		if weights == nil {
			weights = byName[canonical(module.Name)]
		}
		if weights == nil {
			return nil, notFor("it changes the module %.200s, which the model does not have, "+
				"or which Headroom computes in another form", module.Name)
		}
		if err := f.fit(module, weights, m.Uses); err != nil {
			return nil, err
		}
	}
	for _, c := range f.changes {
		f.bytes += c.bytes()
	}
	return f, nil
}

// notFor returns the Problem of an adapter that was made for another model.
func notFor(format string, args ...any) error {
	return problem.New(problem.BadRequest, "The adapter does not fit this model",
		fmt.Sprintf(format, args...), "Use it with the model for which it was made.")
}

// fit adds the changes of the weights of a module.
func (f *Fitted) fit(m *Module, weights []*kernels.Weight, uses map[*kernels.Weight]ops.Use) error {
	first, n := weights[0], 0
	use := uses[first]
	for _, w := range weights {
		n += w.N
		if u := uses[w]; !u.Product && !u.Lookup {
			return unsupported("it changes the module %.200s, which Headroom computes in another "+
				"form", m.Name)
		}
		if f.changes[w] != nil {
			return broken("two of its modules are %.200s", m.Name)
		}
	}
	a, b, err := f.matrices(m, first, n, use)
	if err != nil {
		return err
	}
	if use.Lookup {
		return f.fitEmbedding(m, first, use, a, b)
	}
	factors, err := dora(m, weights, a, b)
	if err != nil {
		return err
	}
	from := 0
	for _, w := range weights {
		c := &change{experts: w.Experts, rank: m.Rank, n: w.N, k: w.K, product: true, a: a,
			b: b[from*m.Rank : (from+w.Experts*w.N)*m.Rank]}
		if factors != nil {
			c.factor = factors[from : from+w.N]
		}
		f.changes[w] = c
		from += w.N
	}
	return nil
}

// matrices returns the matrices of m for a stack of weights of n rows: A [E, r, K], and B [E, N, r]
// multiplied by the scale. For an embedding, A is of its columns, and B of its rows.
func (f *Fitted) matrices(m *Module, w *kernels.Weight, n int, use ops.Use) (a, b []float32,
	err error) {
	wrong := func(expected ...int) error {
		return notFor("module %.200s has matrices of shape %s and %s for a weight of shape %s",
			m.Name, m.A, m.B, shapeOf(expected))
	}
	sa, sb, k := m.A.Shape, m.B.Shape, w.K
	switch {
	case w.Experts > 1:
		if len(sa) != 3 || sa[0] != w.Experts || sa[2] != k || sb[1] != n {
			return nil, nil, wrong(w.Experts, n, k)
		}
		a, b = m.A.Values, slices.Clone(m.B.Values)
	case len(sa) != 2:
		return nil, nil, wrong(n, k)
	case f.PEFT && m.Embedding: // A [r, N], B [K, r]
		if sa[1] != n || sb[0] != k || !use.Lookup {
			return nil, nil, wrong(n, k)
		}
		a, b = transposed(m.B.Values, k, m.Rank), transposed(m.A.Values, m.Rank, n)
	case f.PEFT:
		if sa[1] != k || sb[0] != n || use.Lookup {
			return nil, nil, wrong(n, k)
		}
		a, b = m.A.Values, slices.Clone(m.B.Values)
	case use.Lookup: // A [N, r], B [r, K]
		if sa[0] != n || sb[1] != k {
			return nil, nil, wrong(n, k)
		}
		a, b = m.B.Values, slices.Clone(m.A.Values)
	default:
		if sa[0] != k || sb[1] != n {
			return nil, nil, wrong(n, k)
		}
		a, b = transposed(m.A.Values, k, m.Rank), transposed(m.B.Values, m.Rank, n)
	}
	for i := range b {
		b[i] *= m.Scale
	}
	return a, b, nil
}

func shapeOf(dimensions []int) string { return Matrix{Shape: dimensions}.String() }

// transposed returns the transpose of x [rows, cols].
func transposed(x []float32, rows, cols int) []float32 {
	out := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			out[c*rows+r] = x[r*cols+c]
		}
	}
	return out
}

// fitEmbedding adds the changes of an embedding. In mlx-lm an embedding that is also the head has
// them in both. PEFT changes the lookups alone, and its DoRA gives lengths to columns, not to rows.
func (f *Fitted) fitEmbedding(m *Module, w *kernels.Weight, use ops.Use, a, b []float32) error {
	c := &change{experts: 1, rank: m.Rank, n: w.N, k: w.K, a: a, b: b,
		expand: transposed(a, m.Rank, w.K), lookup: true, product: use.Product && !f.PEFT}
	f.changes[w] = c
	if m.Magnitude.Values == nil {
		return nil
	}
	var err error
	if f.PEFT {
		c.columnFactor, err = columnFactors(m, w, a, b)
		return err
	}
	if c.factor, err = dora(m, []*kernels.Weight{w}, a, b); err != nil {
		return err
	}
	c.ones = make([]float32, w.K)
	for i := range c.ones {
		c.ones[i] = 1
	}
	return nil
}

// dora returns the factors of the rows of all weights of a module, or nil if it is not DoRA.
func dora(m *Module, weights []*kernels.Weight, a, b []float32) ([]float32, error) {
	if m.Magnitude.Values == nil {
		return nil, nil
	}
	n := 0
	for _, w := range weights {
		n += w.N
	}
	if weights[0].Experts > 1 {
		return nil, doraOfExperts(m)
	}
	if len(m.Magnitude.Values) != n {
		return nil, m.wrongMagnitude(n)
	}
	lengths, from := make([]float32, n), 0
	for _, w := range weights {
		rowLengths(lengths[from:from+w.N], w, a, b[from*m.Rank:], m.Rank)
		from += w.N
	}
	return m.factors("row", lengths)
}

// doraOfExperts returns the Problem of DoRA on a stack of experts: neither mlx-lm nor PEFT has it.
func doraOfExperts(m *Module) error {
	return unsupported("it changes the experts %.200s by DoRA, which mlx-lm and PEFT do not define",
		m.Name)
}

func (m *Module) wrongMagnitude(n int) error {
	return notFor("module %.200s has magnitudes of shape %s, expected %d", m.Name, m.Magnitude, n)
}

// factors returns the factors of rows or columns that have the given lengths, in their memory.
func (m *Module) factors(of string, lengths []float32) ([]float32, error) {
	for i, length := range lengths {
		if lengths[i] = m.Magnitude.Values[i] / length; length == 0 || lengths[i]-lengths[i] != 0 {
			return nil, broken("%s %d of module %.200s has length %g and magnitude %g", of, i,
				m.Name, length, m.Magnitude.Values[i])
		}
	}
	return lengths, nil
}

// columnFactors returns the factors of the columns of the embedding w.
// Source: peft/tuners/lora/dora.py, DoraEmbeddingLayer.
func columnFactors(m *Module, w *kernels.Weight, a, b []float32) ([]float32, error) {
	if len(m.Magnitude.Values) != w.K {
		return nil, m.wrongMagnitude(w.K)
	}
	sums, row, sorted := make([]float64, w.K), make([]float32, w.K), make([]float32, w.K)
	for i := range w.N {
		adaptedRow(row, sorted, w, i, a, b, m.Rank)
		for j, x := range row {
			sums[j] += float64(x) * float64(x)
		}
	}
	for j, sum := range sums {
		row[j] = float32(math.Sqrt(sum))
	}
	return m.factors("column", row)
}

// adaptedRow sets row to row i of w + b a.
func adaptedRow(row, sorted []float32, w *kernels.Weight, i int, a, b []float32, rank int) {
	checkpoint.UnpackRow(w, row, sorted, i)
	for r := range rank {
		s, ar := b[i*rank+r], a[r*w.K:][:w.K]
		for j, x := range ar {
			row[j] += s * x
		}
	}
}

// rowLengths sets lengths to those of the rows of w + b a.
func rowLengths(lengths []float32, w *kernels.Weight, a, b []float32, rank int) {
	var tasks sync.WaitGroup
	share := (w.N + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	for first := 0; first < w.N; first += share {
		tasks.Go(func() {
			row, sorted := make([]float32, w.K), make([]float32, w.K)
			for i := first; i < min(first+share, w.N); i++ {
				adaptedRow(row, sorted, w, i, a, b, rank)
				sum := 0.0
				for _, x := range row {
					sum += float64(x) * float64(x)
				}
				lengths[i] = float32(math.Sqrt(sum))
			}
		})
	}
	tasks.Wait()
}

// bytes returns the memory of c on a device.
func (c *change) bytes() int {
	n := 0
	for _, x := range [][]float32{c.a, c.b, c.expand, c.factor, c.ones, c.columnFactor} {
		n += aligned(4 * len(x))
	}
	return n
}

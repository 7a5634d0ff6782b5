package attention

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

// attended returns the output of o on an instruction set with the given queries.
func attended(o *Attention, isa cpu.ISA, exact bool, queries []float32) []byte {
	d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1, Float32Activations: exact})
	defer d.Close()
	p := &Attention{Q: kernels.FromFloat32s(d, o.Q.Rows, o.Q.Cols, queries),
		Out:   kernels.NewTensor(d, kernels.F32, o.Q.Rows, o.Q.Cols),
		Cache: o.Cache, Spans: o.Spans, Scale: o.Scale, Window: o.Window, SinkTokens: o.SinkTokens,
		Sinks: o.Sinks}
	d.Run(p)
	return kerneltest.Elements(p.Out)
}

// TestRoundedQueries checks attention with quantized keys: its output is that of queries rounded by
// roundQuery, and with float32 activations that of the exact queries.
func TestRoundedQueries(t *testing.T) {
	for _, f := range []Format{affine(8, 64), affine(5, 32), affine(2, 128), {Kind: Q8_0},
		{Kind: Q4_0}} {
		reference := kernels.NewReference()
		s := shape{k: f, v: FloatFormat(kernels.F32), heads: 11, kvHeads: 1, d: 128, p: 32,
			window: 300, sinkTokens: 3, spans: [][3]int{{700, 1}, {130, 9}}}
		o := s.build(reference, rand.New(rand.NewPCG(8, 9)))
		o.Scale = 1.0 / 16 // with a power of two, rounding commutes with scaling
		r := rand.New(rand.NewPCG(5, 5))
		queries := make([]float32, o.Q.Rows*o.Q.Cols)
		for i := range queries {
			queries[i] = float32(2 * r.NormFloat64())
		}
		clear(queries[o.Q.Cols:][:128]) // a query of zeros, one too small to have a step, one huge
		for i := range 128 {
			queries[o.Q.Cols+128+i] *= 1e-38
			queries[o.Q.Cols+256+i] *= 1e30
		}
		rounded := slices.Clone(queries)
		roundQuery(rounded, f.group())
		expected := func(queries []float32) []byte {
			o.Q = kernels.FromFloat32s(reference, o.Q.Rows, o.Q.Cols, queries)
			reference.Run(o)
			return kerneltest.Elements(o.Out)
		}
		plain, want := expected(queries), expected(rounded)
		for _, isa := range cpu.Available() {
			got, exact := attended(o, isa, false, queries), attended(o, isa, true, queries)
			if at, g, w := kerneltest.Differ(got, want, 2e-5, 2e-5); at >= 0 {
				t.Errorf("%s, %s: element %d: got %g, expected %g as for rounded queries", f, isa,
					at, g, w)
			}
			if at, g, w := kerneltest.Differ(exact, plain, 2e-5, 2e-5); at >= 0 {
				t.Errorf("%s, %s, float32 activations: element %d: got %g, expected %g", f, isa, at,
					g, w)
			}
		}
		reference.Close()
	}
}

// TestRoundedWeights checks the error of rounded weights when one position dominates a tile. The
// others have weights of 1/2000 each, which is 16 steps, and values far from each other.
func TestRoundedWeights(t *testing.T) {
	for _, f := range []Format{affine(8, 32), affine(4, 32), affine(3, 64), {Kind: Q8_0},
		{Kind: Q4_0}} {
		reference := kernels.NewReference()
		const n, d = 50, 64
		k, v := make([]float32, n*d), make([]float32, n*d)
		r := rand.New(rand.NewPCG(2, 3))
		for i := range n {
			k[i*d] = -float32(math.Log(2000))
			for j := range d {
				v[i*d+j] = float32(r.NormFloat64())
			}
		}
		k[7*d] = 0
		// Small, like the values of attention sinks.
		clear(v[7*d:][:d])
		c := NewCache(reference, FloatFormat(kernels.F32), f, 1, d, 32, 2, Start{})
		pages := []int32{1, 0}
		reference.Run(&Append{K: kernels.FromFloat32s(reference, n, d, k),
			V: kernels.FromFloat32s(reference, n, d, v), Cache: c,
			Spans: []kernels.Span{{Rows: n, Pages: pages}}})
		q := make([]float32, d)
		q[0] = 1
		o := &Attention{Q: kernels.FromFloat32s(reference, 1, d, q),
			Out: kernels.NewTensor(reference, kernels.F32, 1, d), Cache: c, Scale: 1,
			Spans: []kernels.Span{{Rows: 1, Pos: n - 1, Pages: pages}}}
		reference.Run(o)
		want := kerneltest.Elements(o.Out)
		for _, isa := range cpu.Available() {
			// Each of the 49 other weights errs by up to 1/65024 of the largest. Its value is up to
			// 3 from the middle of its group's range.
			if at, g, w := kerneltest.Differ(attended(o, isa, false, q), want, 3e-4, 0); at >= 0 {
				t.Errorf("%s, %s: element %d: got %g, expected %g", f, isa, at, g, w)
			}
		}
		reference.Close()
	}
}

//go:build linux && amd64

package sim

// Three typical kernels of an engine, correct and with mistakes: packed weights times a vector,
// attention over a quantized cache, and a matrix product with simdgroup matrices.

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"headroom/metal"
)

// example is a kernel with its operands and the correct answer.
type example struct {
	file, kernel string
	constants    []metal.ConstantValue
	build        func(t testing.TB, d metal.Device) (x call, out metal.Buffer, want []float64)
}

func (e example) run(t testing.TB, d metal.Device, text string) (got, want []float64, err error) {
	x, out, want := e.build(t, d)
	x.pipeline = pipelineOf(t, d, text, e.kernel, e.constants...)
	err = x.run(d)
	return fromHalves(out), want, err
}

var examples = map[string]example{
	"matvec": {"kernels/matvec.metal", "affine_qmv4_f16_g64",
		[]metal.ConstantValue{{Name: "has_residual", Value: true}}, buildMatvec},
	"attention": {"kernels/attention.metal", "attn_decode_k8v4", nil, buildAttention},
	"gemm":      {"kernels/gemm.metal", "gemm_nt_f16", nil, buildGEMM},
}

func TestKernels(t *testing.T) {
	for name, e := range examples {
		for _, o := range []Options{{Threads: 1}, {Threads: 3}, {Check: true, Seed: 1},
			{Check: true, Seed: 2}} {
			d := open(t, o)
			got, want, err := e.run(t, d, source(t, e.file))
			if err != nil {
				t.Fatalf("%s %+v: %v", name, o, err)
			}
			within(t, got, want, 2e-3)
		}
	}
}

// TestMutants puts one mistake into a kernel at a time and expects the checker to name it.
func TestMutants(t *testing.T) {
	d := open(t, Options{Check: true})
	for _, m := range []struct{ name, kernel, old, new, want string }{
		{"duplicate rows", "matvec", "(tgid.x * nsg + sg) * ROWS;",
			"(tgid.x * nsg + sg) * (ROWS - 1);", "race: writes"},
		{"rows past the end", "matvec", "(tgid.x * nsg + sg) * ROWS;",
			"(tgid.x * nsg + sg) * ROWS + 2;", "out of bounds"},
		{"no barrier", "attention", "  threadgroup_barrier(mem_flags::mem_threadgroup);\n", "\n",
			"race: reads threadgroup memory"},
		{"barrier for the wrong memory", "attention", "mem_flags::mem_threadgroup",
			"mem_flags::mem_device", "race: reads threadgroup memory"},
		{"barrier in a branch", "attention", "  threadgroup_barrier(",
			"  if (sg < 4) threadgroup_barrier(", "barrier"},
		{"return before a barrier", "attention", "  if (lane == 0) {\n    sh_max",
			"  if (sg == 7) return;\n  if (lane == 0) {\n    sh_max",
			"barrier reached after 32 threads have returned"},
		{"positions past the cache", "attention", "t < p.n_pos", "t <= p.cap", "out of bounds"},
		{"threadgroup array overrun", "attention", "sh_acc[sg][lane] = acc",
			"sh_acc[sg + 1][lane] = acc", "outside every threadgroup variable"},
		{"threadgroup memory not written", "attention", "if (lane == 0) {\n    sh_max",
			"if (lane == 0 && sg != 3) {\n    sh_max", "no thread has written"},
		{"simd operations in branches", "attention", "const float M = simd_max(mi);",
			"float M = 0; if (lane < 8) M = simd_max(mi);\n else M = simd_max(mi);",
			"lanes of a simdgroup meet in different simd operations"},
		{"shuffle in a branch", "attention", "const float M = simd_max(mi);",
			"float M = simd_max(mi); if (lane < 8) M = simd_shuffle_down(M, 8);",
			"lanes of a simdgroup meet in different simd operations"},
		{"columns twice", "gemm", "tgid.x * BN;", "(tgid.x / 2) * BN;", "race: writes"},
		{"no barrier before reading", "gemm",
			"    threadgroup_barrier(mem_flags::mem_threadgroup);\n    for (int kk",
			"    for (int kk", "race: reads threadgroup memory"},
		{"no barrier before writing again", "gemm",
			"      }\n    }\n    threadgroup_barrier(mem_flags::mem_threadgroup);\n",
			"      }\n    }\n", "race: writes threadgroup memory"},
		{"lanes load from different places", "gemm", "+ kk, BK);\n        simdgroup_load(mb",
			"+ kk + (lane & 8), BK);\n        simdgroup_load(mb", "another address or stride"},
		{"rows and columns exchanged", "gemm",
			"const uint m0 = tgid.y * BM;\n  const uint n0 = tgid.x * BN;",
			"const uint m0 = tgid.x * BM;\n  const uint n0 = tgid.y * BN;", ""},
	} {
		t.Run(m.name, func(t *testing.T) {
			e := examples[m.kernel]
			text := source(t, e.file)
			if strings.Count(text, m.old) < 1 {
				t.Fatalf("%s no longer contains %q", e.file, m.old)
			}
			got, want, err := e.run(t, d, strings.Replace(text, m.old, m.new, 1))
			if m.want == "" { // no fault in memory: the answer is wrong
				if err == nil && math.Abs(got[len(got)-1]-want[len(want)-1]) < 1e-3 {
					t.Error("got the correct answer from a broken kernel")
				}
				return
			}
			mentions(t, err, m.want)
			if err != nil && !strings.Contains(err.Error(), "test.metal:") {
				t.Errorf("the message names no line: %v", err)
			}
		})
	}
}

type matvecParams struct{ K, N uint32 }

func buildMatvec(t testing.TB, d metal.Device) (call, metal.Buffer, []float64) {
	const k, n = 1024, 64
	r := rand.New(rand.NewPCG(1, 1))
	w := make([]uint32, n*k/8)
	for i := range w {
		w[i] = r.Uint32()
	}
	scales, biases := halves(r, n*k/64, 0.015, 0.002), halves(r, n*k/64, -0.1, 0.01)
	x, residual := halves(r, k, 0, 1), halves(r, n, 0, 1)
	want := make([]float64, n)
	for i := range want {
		want[i] = fromHalf(residual[i])
		for j := range k {
			at := i*k + j
			code := float64(w[at/8] >> (4 * (at % 8)) & 15)
			want[i] += (code*fromHalf(scales[at/64]) + fromHalf(biases[at/64])) * fromHalf(x[j])
		}
	}
	out := put(t, d, "y", make([]uint16, n))
	return call{
		bindings: bind(put(t, d, "w", w), put(t, d, "scales", scales), put(t, d, "biases", biases),
			put(t, d, "x", x), out,
			put(t, d, "p", matvecParams{k, n}), put(t, d, "residual", residual)),
		groups: metal.Size{X: n / 8, Y: 1, Z: 1}, threads: metal.Size{X: 64, Y: 1, Z: 1},
	}, out, want
}

type attentionParams struct {
	NPos, Cap, GQA uint32
	Scale          float32
}

func buildAttention(t testing.TB, d metal.Device) (call, metal.Buffer, []float64) {
	const dim, heads, gqa, positions, capacity = 128, 4, 2, 61, 64
	r := rand.New(rand.NewPCG(2, 2))
	q := halves(r, heads*dim, 0, 1)
	const rows = heads / gqa * capacity
	kCodes, vCodes := make([]byte, rows*dim), make([]uint16, rows*dim/4)
	for i := range kCodes {
		kCodes[i] = byte(r.Uint32())
	}
	for i := range vCodes {
		vCodes[i] = uint16(r.Uint32())
	}
	kScales, vScales := make([]uint16, rows*4), make([]uint16, rows*4)
	for i := 0; i < len(kScales); i += 2 {
		kScales[i], kScales[i+1] = half(0.01+0.005*r.Float64()), half(-1.5)
		vScales[i], vScales[i+1] = half(0.1+0.05*r.Float64()), half(-1)
	}
	p := attentionParams{positions, capacity, gqa, float32(1 / math.Sqrt(dim))}
	want := make([]float64, heads*dim)
	for h := range heads {
		var weights [positions]float64
		sum := 0.0
		for pos := range positions {
			row := h/gqa*capacity + pos
			for i := range dim {
				g := row*4 + i/64*2
				weights[pos] += fromHalf(q[h*dim+i]) *
					(float64(kCodes[row*dim+i])*fromHalf(kScales[g]) + fromHalf(kScales[g+1]))
			}
			weights[pos] = math.Exp(weights[pos] * float64(p.Scale))
			sum += weights[pos]
		}
		for pos, w := range weights {
			row := h/gqa*capacity + pos
			for i := range dim {
				g := row*4 + i/64*2
				v := float64(vCodes[row*dim/4+i/4]>>(4*(i%4))&15)*fromHalf(vScales[g]) +
					fromHalf(vScales[g+1])
				want[h*dim+i] += w / sum * v
			}
		}
	}
	out := put(t, d, "out", make([]uint16, heads*dim))
	return call{
		bindings: bind(put(t, d, "q", q), put(t, d, "kq", kCodes), put(t, d, "ksb", kScales),
			put(t, d, "vq", vCodes), put(t, d, "vsb", vScales),
			out, put(t, d, "p", p)),
		groups: metal.Size{X: heads, Y: 1, Z: 1}, threads: metal.Size{X: 256, Y: 1, Z: 1},
	}, out, want
}

type gemmParams struct{ M, N, K uint32 }

func buildGEMM(t testing.TB, d metal.Device) (call, metal.Buffer, []float64) {
	const m, n, k = 40, 72, 48
	r := rand.New(rand.NewPCG(3, 3))
	a, b := halves(r, m*k, 0, 1), halves(r, n*k, 0, 1)
	want := make([]float64, m*n)
	for i := range want {
		for j := range k {
			want[i] += fromHalf(a[i/n*k+j]) * fromHalf(b[i%n*k+j])
		}
	}
	out := put(t, d, "c", make([]uint16, m*n))
	return call{
		bindings: bind(put(t, d, "a", a), put(t, d, "b", b), out,
			put(t, d, "p", gemmParams{m, n, k})),
		threadgroup: 2 * 64 * 16, groups: metal.Size{X: (n + 31) / 32, Y: (m + 31) / 32, Z: 1},
		threads: metal.Size{X: 128, Y: 1, Z: 1},
	}, out, want
}

// BenchmarkExamples times a dispatch of each example in each mode, such as gemm/checking.
func BenchmarkExamples(b *testing.B) {
	for name, e := range examples {
		for mode, o := range map[string]Options{"fast": {Threads: 1}, "checking": {Check: true}} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				d := open(b, o)
				x, _, _ := e.build(b, d)
				x.pipeline = pipelineOf(b, d, source(b, e.file), e.kernel, e.constants...)
				for b.Loop() {
					if err := x.run(d); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

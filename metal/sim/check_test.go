//go:build linux && amd64

package sim

import (
	"fmt"
	"math"
	"testing"

	"headroom/metal"
)

const prologue = "#include <metal_stdlib>\nusing namespace metal;\n"

// TestChecker runs kernels of 64 threads (two simdgroups) on 64 floats x, which at first hold their
// index. body is the kernel's body. want is part of the checker's message, "" for none.
func TestChecker(t *testing.T) {
	cases := []struct{ name, body, want string }{
		{"each thread's own element", "x[i] += 1.0f;", ""},
		{"a neighbour's element", "x[i] = x[(i + 1) % 64];", "race"},
		{"a neighbour's element after a barrier",
			"float v = x[(i + 1) % 64]; threadgroup_barrier(mem_flags::mem_device); x[i] = v;", ""},
		{"all read what one writes", "s[i] = x[0]; if (i == 0) { x[0] = s[0] + 1.0f; }", "race: "},
		{"lanes in step without a barrier", "s[i] = x[i]; x[i] = s[i ^ 1];",
			"race: reads threadgroup memory"},
		{"lanes after a simdgroup barrier",
			"s[i] = x[i]; simdgroup_barrier(mem_flags::mem_threadgroup); x[i] = s[i ^ 1];", ""},
		{"simdgroups after a simdgroup barrier",
			"s[i] = x[i]; simdgroup_barrier(mem_flags::mem_threadgroup); x[i] = s[i ^ 32];",
			"race: reads threadgroup memory"},
		{"half of the array is never written",
			"if (i < 32) { s[i] = 1.0f; }\n threadgroup_barrier(mem_flags::mem_threadgroup); " +
				"x[i] = s[i];", "no thread has written"},
		{"past the array", "s[i + 1] = 1.0f;", "outside every threadgroup variable"},
		{"before the buffer", "x[i - 1] = 1.0f;", "past the end of buffer 0"},
		{"writes through a pointer made writable", "((device float*)y)[i] = 1.0f;",
			"declare as read-only"},
		{"shuffle from beyond the simdgroup", "x[i] = simd_shuffle(x[i], ushort(i % 32 + 20));",
			"which does not take part"},
		{"atomics", "atomic_fetch_add_explicit((device atomic_uint*)x, 1, memory_order_relaxed);",
			""},
		{"atomic and plain",
			"atomic_fetch_add_explicit((device atomic_uint*)x, 1, memory_order_relaxed); " +
				"if (i == 5) { x[0] = 1.0f; }", "race"},
		{"barrier in half of the threads",
			"if (i < 32) { threadgroup_barrier(mem_flags::mem_device); }",
			"barrier reached after 32 threads have returned"},
		{"simd operation in half of a simdgroup, a barrier in the other",
			"if (i % 32 < 16) { x[i] = simd_sum(1.0f); } " +
				"threadgroup_barrier(mem_flags::mem_device);", "deadlock"},
		{"two barriers for one",
			"if (i < 32) { threadgroup_barrier(mem_flags::mem_device); x[i] = 1.0f; }\n else { " +
				"threadgroup_barrier(mem_flags::mem_device); }", "different barriers"},
		{"matrix operation without all lanes",
			"if (i % 32 < 31) { simdgroup_float8x8 m = simdgroup_float8x8(1.0f); " +
				"simdgroup_store(m, x); }", "lanes missing"},
	}
	text := prologue
	for i, c := range cases {
		text += fmt.Sprintf(
			"kernel void k%d(device float* x [[buffer(0)]], device const float* y [[buffer(1)]], "+
				"uint i [[thread_index_in_threadgroup]]) {\n"+
				"  threadgroup float s[64];\n  if (i == 64) { s[0] = y[0]; }\n  %s\n}\n", i, c.body)
	}
	d := open(t, Options{Check: true, Seed: 3})
	lib := compile(t, d, "checker.metal", text)
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(i)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := lib.Pipeline(fmt.Sprintf("k%d", i))
			if err != nil {
				t.Fatal(err)
			}
			err = call{pipeline: p, bindings: bind(put(t, d, "x", x), put(t, d, "y", x)),
				groups: metal.Size{X: 1, Y: 1, Z: 1}, threads: metal.Size{X: 64, Y: 1, Z: 1}}.run(d)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			mentions(t, err, c.want)
		})
	}
}

// TestTwoReaders checks that the checker finds the race when two threads read a byte and one of
// them writes it later, whatever the order of threads.
func TestTwoReaders(t *testing.T) {
	text := prologue +
		"kernel void k(device float* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n" +
		"  x[1 + i] = x[0];\n  simdgroup_barrier(mem_flags::mem_none);\n" +
		"  if (i == 0) { x[0] = 1.0f; }\n}\n"
	for seed := range uint64(16) {
		d := open(t, Options{Check: true, Seed: seed})
		err := call{pipeline: pipelineOf(t, d, text, "k"),
			bindings: bind(put(t, d, "x", make([]float32, 3))), groups: one,
			threads: metal.Size{X: 2, Y: 1, Z: 1}}.run(d)
		mentions(t, err, "race: writes bytes [0, 1)")
	}
}

// TestLibrary compares positions and functions of Metal's library with results computed by hand.
// Thread i of 64 writes element i.
func TestLibrary(t *testing.T) {
	cases := []struct {
		expression string
		want       func(i int) float64
	}{
		{"float(i)", func(i int) float64 { return float64(i) }},
		{"simd_sum(float(i))", func(i int) float64 { return float64(31*16 + i/32*32*32) }},
		{"float(simd_max(i))", func(i int) float64 { return float64(i/32*32 + 31) }},
		{"float(simd_min(int(i) - 40))", func(i int) float64 { return float64(i/32*32 - 40) }},
		{"float(simd_prefix_inclusive_sum(1u))", func(i int) float64 { return float64(i%32 + 1) }},
		{"float(simd_prefix_exclusive_sum(2u))",
			func(i int) float64 { return float64(i % 32 * 2) }},
		{"simd_broadcast(float(i), 5)", func(i int) float64 { return float64(i/32*32 + 5) }},
		{"simd_shuffle_xor(float(i), 3)", func(i int) float64 { return float64(i ^ 3) }},
		{"simd_shuffle_down(float(i), 1)", func(i int) float64 { return float64(i + 1 - i%32/31) }},
		{"simd_all(i < 40) ? 1.0f : 0.0f", func(i int) float64 { return float64(1 - i/32) }},
		{"float(lane + 100 * sg)", func(i int) float64 { return float64(i%32 + 100*(i/32)) }},
		{"as_type<float>(0x40490fdbu)", func(int) float64 { return float64(float32(math.Pi)) }},
		{"float(half(0.1f))", func(int) float64 { return 0.0999755859375 }},
		// a tie rounds to even: 1.0078125 is odd
		{"float(bfloat(1.01171875f))", func(int) float64 { return 1.015625 }},
		{"dot(float4(1, 2, 3, 4), float4(float2(1), 2, 0))", func(int) float64 { return 9 }},
		{"float3(1, 2, 3).zyx.x", func(int) float64 { return 3 }},
		{"fma(2.0f, 3.0f, 4.0f)", func(int) float64 { return 10 }},
		{"clamp(float(i), 3.0f, 5.0f)", func(i int) float64 { return float64(min(max(i, 3), 5)) }},
		{"float(extract_bits(0xABCDu, 4, 8))", func(int) float64 { return 0xBC }},
		{"float(popcount(i)) + float(clz(1u)) + float(mulhi(0x80000000u, 6u))",
			func(i int) float64 { return float64(popcount(i)) + 31 + 3 }},
		{"rsqrt(16.0f) + exp2(3.0f) + rint(2.5f)", func(int) float64 { return 10.25 }},
	}
	text := prologue
	for i, c := range cases {
		text += fmt.Sprintf(
			"kernel void k%d(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]], "+
				"uint lane [[thread_index_in_simdgroup]], "+
				"uint sg [[simdgroup_index_in_threadgroup]]) {\n"+
				"  x[i] = 0.0f * float(lane + sg) + (%s);\n}\n", i, c.expression)
	}
	for _, check := range []bool{false, true} {
		d := open(t, Options{Check: check})
		lib := compile(t, d, "library.metal", text)
		for k, c := range cases {
			p, err := lib.Pipeline(fmt.Sprintf("k%d", k))
			if err != nil {
				t.Fatal(err)
			}
			x := put(t, d, "x", make([]float32, 64))
			if err := (call{pipeline: p, bindings: bind(x), groups: metal.Size{X: 1, Y: 1, Z: 1},
				threads: metal.Size{X: 64, Y: 1, Z: 1}}).run(d); err != nil {
				t.Fatalf("%s: %v", c.expression, err)
			}
			for i, got := range float32s(x) {
				if float64(got) != c.want(i) {
					t.Errorf("%s in thread %d: got %g, expected %g", c.expression, i, got,
						c.want(i))
					break
				}
			}
		}
	}
}

func popcount(i int) (n int) {
	for ; i > 0; i &= i - 1 {
		n++
	}
	return n
}

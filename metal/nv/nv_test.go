//go:build nv && linux

package nv

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"headroom/metal"
	"headroom/metal/msl"
)

// The kernels of the tests use threadgroup variables, a function constant, threadgroup memory whose
// length the host sets, simdgroup operations and a simdgroup matrix.
const testSource = `#include <metal_stdlib>
using namespace metal;
constant uint factor [[function_constant(3)]];
constant bool negative [[function_constant(4)]];
struct P { uint n; float by; };

// out[0..n) = factor*x + by, backwards within each threadgroup
kernel void scaled(constant P& p [[buffer(0)]], device const float* x [[buffer(1)]], device float* out [[buffer(2)]],
    threadgroup float* spare [[threadgroup(0)]], uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
    uint n [[threads_per_threadgroup]]) {
  threadgroup float turned[64];
  turned[n - 1 - t] = x[i] * float(factor);
  spare[t] = p.by;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = turned[t] + spare[n - 1 - t];
  if (negative) {
    out[i] = -out[i];
  }
}

// out[32 row + lane]: sum, prefix sum, a shuffled value, maximum less minimum, half2 sum, exp
kernel void together(constant P& p [[buffer(0)]], device const float* x [[buffer(1)]], device float* out [[buffer(2)]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float other[32];
  other[lane] = x[lane];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  out[lane] = simd_sum(other[31 - lane]);
  out[32 + lane] = simd_prefix_exclusive_sum(x[lane]);
  out[64 + lane] = simd_shuffle(x[lane], ushort(lane / 2));
  out[96 + lane] = simd_max(x[lane]) - simd_min(x[lane]);
  const half2 h = simd_sum(half2(half(x[lane]), half(1)));
  out[128 + lane] = float(h.y);
  out[160 + lane] = exp(x[lane]);
}

// out = a b^T + a
kernel void product(constant P& p [[buffer(0)]], device const float* a [[buffer(1)]], device const float* b [[buffer(2)]],
    device float* out [[buffer(3)]]) {
  simdgroup_float8x8 x, y;
  simdgroup_load(x, a, 8);
  simdgroup_load(y, b, 8, ulong2(0, 0), true);
  simdgroup_multiply_accumulate(y, x, y, x);
  simdgroup_store(y, out, 8);
}

kernel void waves(constant P& p [[buffer(0)]], device float* out [[buffer(1)]]) { out[0] = sin(out[0]); }
`

func constants(factor uint32, negative bool) []metal.ConstantValue {
	return []metal.ConstantValue{{Name: "factor", Value: factor},
		{Name: "negative", Value: negative}}
}

// compileOnly returns a device that compiles kernels into a temporary folder and runs none.
func compileOnly(t *testing.T) *Device {
	t.Helper()
	d, err := Open(Options{CompileOnly: true, CacheDir: t.TempDir()})
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func testLibrary(t *testing.T, d metal.Device) metal.Library {
	t.Helper()
	l, err := d.NewLibrary("test.metal", testSource, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestCompiledKernelsTravel checks that a machine without clang uses kernels that another machine
// compiled, and that the error for any other kernel says how to compile it.
func TestCompiledKernelsTravel(t *testing.T) {
	d := compileOnly(t)
	if _, err := testLibrary(t, d).Pipeline("scaled", constants(2, false)...); err != nil {
		t.Fatal(err)
	}
	d.compiler.clang = ""
	if _, err := testLibrary(t, d).Pipeline("scaled", constants(2, false)...); err != nil {
		t.Errorf("the same kernel without clang: %v", err)
	}
	for name, c := range map[string][]metal.ConstantValue{"scaled": constants(3, false),
		"together": constants(2, false)} {
		if _, err := testLibrary(t, d).Pipeline(name, c...); err == nil ||
			!strings.Contains(err.Error(), "CompileOnly") {
			t.Errorf("%s: got %v, expected an error that says how to compile it", name, err)
		}
	}
}

// TestPTX checks that without ptxas the compiled kernel is PTX with one entry.
func TestPTX(t *testing.T) {
	d := compileOnly(t)
	d.compiler.ptxas = ""
	program, err := msl.Parse("test.metal", testSource)
	if err != nil {
		t.Fatal(err)
	}
	code, err := d.compiler.kernel("test.metal", program, program.Kernel("product"), []uint32{1, 0})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(code); !strings.Contains(text, ".visible .entry msl_entry(") ||
		!strings.HasSuffix(text, "\x00") {
		t.Errorf("got %d bytes, expected PTX with the entry msl_entry and a final zero byte",
			len(text))
	}
}

func TestMistakesInPipelines(t *testing.T) {
	d := compileOnly(t)
	for _, x := range []struct {
		kernel    string
		constants []metal.ConstantValue
		want      string
	}{
		{"scale", constants(1, true), "has no kernel scale; it has scaled, together"},
		{"scaled", nil, "function constant factor has no value"},
		{"scaled", append(constants(1, true), constants(1, true)...),
			"function constant factor has 2 values"},
		{"scaled", []metal.ConstantValue{{Name: "factor", Value: 1},
			{Name: "negative", Value: true}}, "got int"},
		{"waves", constants(1, true), "nv_threads.h does not define"},
	} {
		if _, err := testLibrary(t, d).Pipeline(x.kernel, x.constants...); err == nil ||
			!strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, expected %q", x.kernel, err, x.want)
		}
	}
}

func TestMistakesInRecording(t *testing.T) {
	d := compileOnly(t)
	p, err := testLibrary(t, d).Pipeline("product", constants(1, false)...)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := d.NewBuffer("shared", 64)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := d.Allocate("pages", pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := d.WrapBuffer("weights", pages.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	one := metal.Size{X: 1, Y: 1, Z: 1}
	all := []metal.Binding{{Buffer: shared}, {Buffer: weights}, {Buffer: weights}, {Buffer: shared}}
	for _, x := range []struct {
		record func(c metal.Commands)
		want   string
	}{
		{func(c metal.Commands) { c.Dispatch("x", one, metal.Size{X: 32, Y: 1, Z: 1}) },
			"no pipeline"},
		{func(c metal.Commands) {
			c.SetPipeline(p)
			c.Dispatch("x", one, metal.Size{X: 33, Y: 1, Z: 1})
		}, "whole simdgroups"},
		{func(c metal.Commands) {
			c.SetPipeline(p)
			c.Dispatch("x", one, metal.Size{X: 32, Y: 1, Z: 1})
		}, "nothing is bound to a reference"},
		{func(c metal.Commands) {
			c.SetBuffers(0, metal.Binding{Buffer: shared, Offset: 60, Bytes: 8})
		}, "bytes [60, 68)"},
		{func(c metal.Commands) { c.SetThreadgroupMemory(0, 17) }, "multiple of 16"},
		{func(c metal.Commands) {
			c.SetPipeline(p)
			c.SetBuffers(0, append(all[:3:3], metal.Binding{Buffer: weights})...)
			c.Dispatch("x", one, metal.Size{X: 32, Y: 1, Z: 1})
		}, "only reads"},
		{func(c metal.Commands) {
			c.SetPipeline(p)
			c.SetBuffers(0, all...)
			c.Dispatch("x", one, metal.Size{X: 32, Y: 1, Z: 1})
			c.Commit(nil)
			c.Commit(nil)
		}, "Commit after Commit"},
	} {
		c := d.NewCommands()
		x.record(c)
		if err := c.Wait(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, expected %q", err, x.want)
		}
	}
}

// device opens the GPU, with kernels that were compiled here or on another machine.
func device(t *testing.T) *Device {
	t.Helper()
	o := FromEnvironment()
	d, err := Open(o)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// compiling reports whether HEADROOM_NV asks for CompileOnly. Kernels then give no results to
// compare.
func compiling() bool { return FromEnvironment().CompileOnly }

func floats(b metal.Buffer) []float32 {
	m := b.Bytes()
	return unsafe.Slice((*float32)(unsafe.Pointer(&m[0])), len(m)/4)
}

// host returns a buffer of values that host and GPU share, mirrored or managed.
func host(t *testing.T, d *Device, managed bool, values ...float32) metal.Buffer {
	t.Helper()
	make := d.NewBuffer
	if managed {
		make = d.Allocate
	}
	b, err := make("values", 4*len(values))
	if err != nil {
		t.Fatal(err)
	}
	copy(floats(b), values)
	return b
}

func pipe(t *testing.T, l metal.Library, name string, c []metal.ConstantValue) metal.Pipeline {
	t.Helper()
	p, err := l.Pipeline(name, c...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func count(n int, f func(i int) float32) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = f(i)
	}
	return all
}

// TestMemory passes a kernel's output to the next kernel, within a commit and across commits, in
// mirrored and managed memory. The GPU must see what the host writes between two commits.
func TestMemory(t *testing.T) {
	d := device(t)
	l := testLibrary(t, d)
	double, minus := pipe(t, l, "scaled", constants(2, false)),
		pipe(t, l, "scaled", constants(1, true))
	for _, managed := range []bool{false, true} {
		const n = 256
		x := host(t, d, managed, count(n, func(i int) float32 { return float32(i) })...)
		y, z := host(t, d, managed, make([]float32, n)...),
			host(t, d, managed, make([]float32, n)...)
		params := host(t, d, false, math.Float32frombits(n), 1)
		dispatch := func(c metal.Commands, p metal.Pipeline, in, out metal.Buffer) {
			c.SetPipeline(p)
			c.SetBuffers(0, metal.Binding{Buffer: params}, metal.Binding{Buffer: in},
				metal.Binding{Buffer: out})
			c.SetThreadgroupMemory(0, 256)
			c.Dispatch("scaled", metal.Size{X: n / 64, Y: 1, Z: 1}, metal.Size{X: 64, Y: 1, Z: 1})
		}
		first, second := d.NewCommands(), d.NewCommands()
		for round := range 3 {
			floats(x)[7] = float32(1000 * round)
			dispatch(first, double, x, y) // y = 2x + 1, reversed
			first.Barrier()
			dispatch(first, minus, y, z) // z = -(2x + 1 + 1), in the order of x
			first.Commit(nil)
			dispatch(second, double, z, y) // y = 2z + 1, reversed
			second.Commit(nil)
			if err := errors.Join(first.Wait(), second.Wait()); err != nil {
				t.Fatal(err)
			}
			if compiling() {
				continue
			}
			for i := range n {
				from := i/64*64 + 63 - i%64
				if want := -2*(2*floats(x)[from]+2) + 1; floats(y)[i] != want {
					t.Fatalf("managed %t, round %d: y[%d] is %g, expected %g", managed, round, i,
						floats(y)[i], want)
				}
			}
		}
		if !compiling() && (first.GPUTime() <= 0 || d.Seconds() < first.GPUTime()) {
			t.Errorf("the GPU took %g s, %g in all", first.GPUTime(), d.Seconds())
		}
	}
}

func TestTogether(t *testing.T) {
	d := device(t)
	p := pipe(t, testLibrary(t, d), "together", constants(1, false))
	x := host(t, d, true, count(32, func(i int) float32 { return float32(i*i%37) - 9 })...)
	out := host(t, d, true, make([]float32, 192)...)
	c := d.NewCommands()
	c.SetPipeline(p)
	c.SetBuffers(0, metal.Binding{Buffer: host(t, d, false, 0, 0)}, metal.Binding{Buffer: x},
		metal.Binding{Buffer: out})
	c.Dispatch("together", metal.Size{X: 1, Y: 1, Z: 1}, metal.Size{X: 32, Y: 1, Z: 1})
	c.Commit(nil)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	v, got := floats(x), floats(out)
	var sum, before, low, high float32
	for _, a := range v {
		sum, low, high = sum+a, min(low, a), max(high, a)
	}
	for i := range 32 {
		if compiling() {
			break
		}
		for j, want := range []float32{sum, before, v[i/2], high - low, 32,
			float32(math.Exp(float64(v[i])))} {
			if g := got[32*j+i]; math.Abs(float64(g-want)) > 3e-7*math.Abs(float64(want)) {
				t.Errorf("lane %d, result %d: got %g, expected %g", i, j, g, want)
			}
		}
		before += v[i]
	}
}

func TestProduct(t *testing.T) {
	d := device(t)
	p := pipe(t, testLibrary(t, d), "product", constants(1, false))
	a := count(64, func(i int) float32 { return float32(i*7%11) - 5 })
	b := count(64, func(i int) float32 { return float32(i*5%13) - 6 })
	out := host(t, d, true, make([]float32, 64)...)
	c := d.NewCommands()
	c.SetPipeline(p)
	c.SetBuffers(0, metal.Binding{Buffer: host(t, d, false, 0, 0)},
		metal.Binding{Buffer: host(t, d, true, a...)},
		metal.Binding{Buffer: host(t, d, true, b...)},
		metal.Binding{Buffer: out})
	c.Dispatch("product", metal.Size{X: 1, Y: 1, Z: 1}, metal.Size{X: 32, Y: 1, Z: 1})
	told := make(chan error, 1)
	c.Commit(func(err error) { told <- err })
	if err := errors.Join(c.Wait(), <-told); err != nil {
		t.Fatal(err)
	}
	for r := range 8 {
		for s := range 8 {
			if compiling() {
				return
			}
			want := a[8*r+s]
			for k := range 8 {
				want += a[8*r+k] * b[8*s+k]
			}
			if g := floats(out)[8*r+s]; g != want {
				t.Errorf("row %d, column %d: got %g, expected %g", r, s, g, want)
			}
		}
	}
}

// TestGraph commits a sequence several times: first launched by itself, then as a graph, whose
// dispatches get other buffers, sizes and host data.
func TestGraph(t *testing.T) {
	d := device(t)
	l := testLibrary(t, d)
	double := pipe(t, l, "scaled", constants(2, false))
	const most = 256
	c := d.NewCommands().(*commands)
	for round := range 8 {
		n := 64 * (1 + round%4)
		params := host(t, d, false, math.Float32frombits(uint32(n)), 1)
		buffers := []metal.Buffer{host(t, d, round%2 == 0, count(most, func(i int) float32 {
			return float32(round + i)
		})...)}
		for range leastGraph {
			in, out := buffers[len(buffers)-1], host(t, d, true, make([]float32, most)...)
			c.SetPipeline(double)
			c.SetBuffers(0, metal.Binding{Buffer: params}, metal.Binding{Buffer: in},
				metal.Binding{Buffer: out})
			c.SetThreadgroupMemory(0, 256)
			c.Dispatch("scaled", metal.Size{X: n / 64, Y: 1, Z: 1}, metal.Size{X: 64, Y: 1, Z: 1})
			c.Barrier()
			buffers = append(buffers, out)
		}
		c.Commit(nil)
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < n && !compiling(); i++ {
			// each dispatch reverses 64 values, and there is an even number of dispatches
			want := float32(round + i)
			for range leastGraph {
				want = 2*want + 1
			}
			if got := floats(buffers[leastGraph])[i]; got != want {
				t.Fatalf("round %d, value %d: got %g, expected %g", round, i, got, want)
			}
		}
	}
	if got := len(c.graphs.known); !compiling() && got != 1 {
		t.Errorf("%d graphs, expected 1", got)
	}
}

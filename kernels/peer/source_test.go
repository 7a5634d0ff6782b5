package peer

import (
	"strings"
	"testing"
	"testing/fstest"

	"headroom/metal/msl"
)

// TestSource: a kernel that leaves out indices of its buffers gets those that Metal gives them, and
// package msl reads the result with its one instance.
func TestSource(t *testing.T) {
	mlx := fstest.MapFS{folder + "a.h": {Data: []byte(`
namespace metal {
template <class T> struct plain { using type = T; };
} // namespace metal
template <typename T>
[[kernel, max_total_threads_per_threadgroup(64)]] void f(
    const device T* x,
    device T* y,
    constant const int64_t strides[3],
    const constant int& n [[buffer(10)]],
    uint2 at [[thread_position_in_grid]],
    uint quad [[thread_index_in_quadgroup]]) {}
`)}}
	text, err := source(mlx, "f<float>", "a.h")
	if err != nil {
		t.Fatal(err)
	}
	program, err := msl.Parse("a", text)
	if err != nil {
		t.Fatal(err)
	}
	k := program.Kernel("peer")
	if k == nil {
		t.Fatalf("got the kernels %s", program.KernelNames())
	}
	for i, want := range map[int]string{0: "x", 1: "y", 2: "strides", 10: "n"} {
		if a := k.Buffer(i); a == nil || a.Name != want {
			t.Errorf("buffer %d: got %v, expected %s", i, a, want)
		}
	}
	if !strings.Contains(text, "} namespace metal {") {
		t.Error("the library's namespace is within the translation's")
	}
}

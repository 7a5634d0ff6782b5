package darwin

import (
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"headroom/metal"
)

const source = `#include <metal_stdlib>
using namespace metal;
struct AddParams { uint n; float by; };
kernel void add(constant AddParams& p [[buffer(0)]], device float* x [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  if (i < p.n) {
    x[i] += p.by;
  }
}
`

// TestAdd adds numbers on a Mac's GPU, twice with a barrier in between. On other systems Open
// returns an error.
func TestAdd(t *testing.T) {
	d, err := Open()
	if runtime.GOOS != "darwin" {
		if err == nil || !strings.Contains(err.Error(), runtime.GOOS) {
			t.Fatalf("got %v, expected an error that names %s", err, runtime.GOOS)
		}
		return
	}
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	t.Logf("%+v", d.Facts())
	const n = 1000
	lib, err := d.NewLibrary("add.metal", source, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := lib.Pipeline("add")
	if err != nil {
		t.Fatal(err)
	}
	params, err := d.NewBuffer("params", 8)
	if err != nil {
		t.Fatal(err)
	}
	x, err := d.NewBuffer("x", 4*n)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(params.Bytes(), n)
	binary.LittleEndian.PutUint32(params.Bytes()[4:], math.Float32bits(1.5))
	for i := range n {
		binary.LittleEndian.PutUint32(x.Bytes()[4*i:], math.Float32bits(float32(i)))
	}
	if err := d.MakeResident("all", []metal.Buffer{params, x}); err != nil {
		t.Fatal(err)
	}
	c := d.NewCommands()
	for range 2 {
		c.SetPipeline(p)
		c.SetBuffers(0, metal.Binding{Buffer: params}, metal.Binding{Buffer: x})
		c.Dispatch("add", metal.Size{X: (n + 255) / 256, Y: 1, Z: 1},
			metal.Size{X: 256, Y: 1, Z: 1})
		c.Barrier()
	}
	called := 0
	c.Commit(func(error) { called++ })
	if err := c.Wait(); err != nil || called != 1 || c.GPUTime() <= 0 {
		t.Fatalf("got %v, %d calls of the handler, %g s", err, called, c.GPUTime())
	}
	for i := range n {
		got := math.Float32frombits(binary.LittleEndian.Uint32(x.Bytes()[4*i:]))
		if want := float32(i) + 3; got != want {
			t.Fatalf("element %d: got %g, expected %g", i, got, want)
		}
	}
}

//go:build linux && amd64

package sim

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"headroom/metal"
)

func TestBuffers(t *testing.T) {
	d := open(t, Options{Check: true})
	b, err := d.NewBuffer("fresh", 100)
	if err != nil || len(b.Bytes()) != 100 || b.Bytes()[99] != 0xFF || b.Label() != "fresh" {
		t.Errorf("got %v, %v: expected 100 bytes of 0xFF", b, err)
	}
	_, err = d.NewBuffer("none", 0)
	mentions(t, err, "expected 1 to 1099511627776")
	page := os.Getpagesize()
	pages, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(pages)
	if b, err = d.WrapBuffer("file", pages); err != nil || &b.Bytes()[0] != &pages[0] {
		t.Errorf("got %v, expected the same memory", err)
	}
	for _, part := range [][]byte{pages[8:page], pages[:page+8], nil} {
		_, err = d.WrapBuffer("part", part)
		mentions(t, err, "whole pages")
	}
	short := open(t, Options{MaxBufferLength: uint64(page)})
	if got := short.Facts().MaxBufferLength; got != uint64(page) {
		t.Errorf("got a longest buffer of %d bytes, expected %d", got, page)
	}
	_, err = short.NewBuffer("long", page+1)
	mentions(t, err, "expected 1 to 4096")
	_, err = short.WrapBuffer("long", pages)
	mentions(t, err, "expected 1 to 4096")
	if b, err = short.WrapBuffer("half", pages[page:]); err != nil {
		t.Fatal(err)
	}
	short.Free(b)
	c := short.NewCommands()
	c.SetBuffers(0, metal.Binding{Buffer: b})
	mentions(t, c.Wait(), "it has been freed")
	if err := d.MakeResident("all", nil); err != nil {
		t.Error(err)
	}
	f := d.Facts()
	if f.Name == "" || f.MaxThreadgroupMemoryLength != 32768 || f.PageBytes != page {
		t.Errorf("facts: %+v", f)
	}
}

// TestPipelineFacts checks that a pipeline knows the size of its kernel's threadgroup variables
// after the first dispatch.
func TestPipelineFacts(t *testing.T) {
	d := open(t, Options{})
	e := examples["attention"]
	x, _, _ := e.build(t, d)
	x.pipeline = pipelineOf(t, d, source(t, e.file), e.kernel)
	if err := x.run(d); err != nil {
		t.Fatal(err)
	}
	if f := x.pipeline.Facts(); f.ThreadExecutionWidth != 32 ||
		f.MaxTotalThreadsPerThreadgroup != 1024 ||
		f.StaticThreadgroupMemoryLength != 32+32+8*32*16 {
		t.Errorf("got %+v", f)
	}
	if k := x.pipeline.Kernel(); k.Name != "attn_decode_k8v4" {
		t.Errorf("got %s", k.Name)
	}
}

// TestThreadgroupMemoryLimit runs a kernel that needs more threadgroup memory than a GPU has.
func TestThreadgroupMemoryLimit(t *testing.T) {
	d := open(t, Options{})
	p := pipelineOf(t, d, prologue+
		"kernel void k(device float* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n"+
		"  threadgroup float a[8192];\n  threadgroup float b[1];\n"+
		"  a[i] = 1; b[0] = 1; x[i] = a[i] + b[0];\n}", "k")
	x := put(t, d, "x", make([]float32, 32))
	err := call{pipeline: p, bindings: bind(x), groups: one, threads: one}.run(d)
	mentions(t, err, "32784 bytes of threadgroup memory, at most 32768")
}

//go:build linux && amd64

package sim

import (
	"strings"
	"sync"
	"testing"

	"headroom/metal"
)

const addSource = `#include <metal_stdlib>
using namespace metal;
struct AddParams { uint n; float by; };
kernel void add(
    constant AddParams& p [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device float* y       [[buffer(2)]],
    uint i [[thread_position_in_grid]]) {
  if (i < p.n) {
    y[i] = x[i] + p.by;
  }
}
kernel void reverse(
    device float4* x     [[buffer(0)]],
    threadgroup float4* s [[threadgroup(0)]],
    uint i [[thread_index_in_threadgroup]],
    uint n [[threads_per_threadgroup]]) {
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = s[n - 1 - i];
}
kernel void peek(device float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
[[max_total_threads_per_threadgroup(64)]] kernel void few(device float* x [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { x[i] = 1.0f; }
`

type addParams struct {
	N  uint32
	By float32
}

var one = metal.Size{X: 1, Y: 1, Z: 1}

// adder is a device with the add kernel and operands of n floats.
type adder struct {
	d            metal.Device
	lib          metal.Library
	p, x, y      metal.Buffer
	short        metal.Buffer // parameters for 99 elements
	small, wide  metal.Buffer // for TestConflicts
	add          call
	reverse, few metal.Pipeline
}

func newAdder(t testing.TB, o Options) *adder {
	d := open(t, o)
	a := &adder{d: d, lib: compile(t, d, "add.metal", addSource)}
	x := make([]float32, 100)
	for i := range x {
		x[i] = float32(i)
	}
	a.p, a.x, a.y = put(t, d, "p", addParams{100, 2}), put(t, d, "x", x),
		put(t, d, "y", make([]float32, 100))
	a.add = call{pipeline: a.pipeline(t, "add"), bindings: bind(a.p, a.x, a.y),
		groups: metal.Size{X: 4, Y: 1, Z: 1}, threads: metal.Size{X: 32, Y: 1, Z: 1}}
	a.short, a.reverse, a.few = put(t, d, "short", addParams{99, 2}), a.pipeline(t, "reverse"),
		a.pipeline(t, "few")
	return a
}

func (a *adder) pipeline(t testing.TB, name string) metal.Pipeline {
	p, err := a.lib.Pipeline(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHostMistakes checks that each mistake of the host fails when it is recorded or when it runs.
func TestHostMistakes(t *testing.T) {
	for _, c := range []struct {
		name, want string
		record     func(a *adder, c metal.Commands)
	}{
		{"nothing wrong", "", func(a *adder, c metal.Commands) { a.add.record(c, "add") }},
		{"no pipeline", "call SetPipeline first",
			func(a *adder, c metal.Commands) { c.Dispatch("add", one, one) }},
		{"a nil pipeline", "expected a pipeline of this device",
			func(a *adder, c metal.Commands) { c.SetPipeline(nil) }},
		{"a buffer not set", "buffer 2, y (device float *), is not set",
			func(a *adder, c metal.Commands) {
				a.add.bindings = bind(a.p, a.x)
				a.add.record(c, "add")
			}},
		{"a buffer too many", "has no [[buffer(3)]]", func(a *adder, c metal.Commands) {
			a.add.bindings = bind(a.p, a.x, a.y, a.y)
			a.add.record(c, "add")
		}},
		{"index 31", "expected them within [0, 31)",
			func(a *adder, c metal.Commands) { c.SetBuffers(31, bind(a.x)...) }},
		{"a struct of another size", "the host passes 12 bytes, the source's type has 8",
			func(a *adder, c metal.Commands) {
				a.add.bindings[0] = metal.Binding{Buffer: a.x, Bytes: 12}
				a.add.record(c, "add")
			}},
		{"a struct too short", "short of one element, 8 bytes", func(a *adder, c metal.Commands) {
			a.add.bindings[0] = metal.Binding{Buffer: a.p, Offset: 4}
			a.add.record(c, "add")
		}},
		{"an odd offset", "expected a multiple of 4", func(a *adder, c metal.Commands) {
			a.add.bindings[1].Offset = 2
			a.add.record(c, "add")
		}},
		{"an offset between vectors", "offset 4, expected a multiple of 16",
			func(a *adder, c metal.Commands) {
				x := call{pipeline: a.reverse, bindings: []metal.Binding{{Buffer: a.x, Offset: 4}},
					threadgroup: 64, groups: one, threads: metal.Size{X: 4, Y: 1, Z: 1}}
				x.record(c, "reverse")
			}},
		{"a range past the end", `bytes [0, 404) of "x", which has 400`,
			func(a *adder, c metal.Commands) {
				a.add.bindings[1].Bytes = 404
				a.add.record(c, "add")
			}},
		{"nothing for a reference", "nothing is bound to a reference",
			func(a *adder, c metal.Commands) {
				a.add.bindings[0] = metal.Binding{}
				a.add.record(c, "add")
			}},
		{"a short buffer",
			"reads out of bounds: 4 bytes, 0 bytes past the end of buffer 1, x (396 bytes) at " +
				"add.metal:10", func(a *adder, c metal.Commands) {
				a.add.bindings[1].Bytes = 396
				a.add.record(c, "add")
			}},
		{"nothing for a pointer that is used", "out of bounds", func(a *adder, c metal.Commands) {
			a.add.bindings[1] = metal.Binding{}
			a.add.record(c, "add")
		}},
		{"no threadgroup memory", "call SetThreadgroupMemory", func(a *adder, c metal.Commands) {
			x := call{pipeline: a.reverse, bindings: bind(a.x), groups: one, threads: one}
			x.record(c, "reverse")
		}},
		{"odd threadgroup memory", "a positive multiple of 16",
			func(a *adder, c metal.Commands) { c.SetThreadgroupMemory(0, 24) }},
		{"too little threadgroup memory", "outside every threadgroup variable",
			func(a *adder, c metal.Commands) {
				call{pipeline: a.reverse, bindings: bind(a.x), threadgroup: 48, groups: one,
					threads: metal.Size{X: 4, Y: 1, Z: 1}}.record(c, "reverse")
			}},
		{"too much threadgroup memory",
			`dispatch "reverse": 32784 bytes of threadgroup memory, at most 32768`,
			func(a *adder, c metal.Commands) {
				call{pipeline: a.reverse, bindings: bind(a.x), threadgroup: 32768 + 16, groups: one,
					threads: one}.record(c, "reverse")
			}},
		{"threadgroup memory that the kernel lacks", "has no [[threadgroup(0)]]",
			func(a *adder, c metal.Commands) {
				a.add.threadgroup = 16
				a.add.record(c, "add")
			}},
		{"too many threads", "expected 1 to 1024", func(a *adder, c metal.Commands) {
			a.add.threads = metal.Size{X: 1025, Y: 1, Z: 1}
			a.add.record(c, "add")
		}},
		{"more threads than the kernel declares", "expected 1 to 64",
			func(a *adder, c metal.Commands) {
				call{pipeline: a.few, bindings: bind(a.x), groups: one,
					threads: metal.Size{X: 65, Y: 1, Z: 1}}.record(c, "few")
			}},
		{"no threadgroups", "expected at least one in each dimension",
			func(a *adder, c metal.Commands) {
				a.add.groups = metal.Size{}
				a.add.record(c, "add")
			}},
		{"an output that overlaps an input",
			"the same memory as buffer 2, y (the output overlaps an input)",
			func(a *adder, c metal.Commands) {
				a.add.bindings[1] = metal.Binding{Buffer: a.x}
				a.add.bindings[2] = metal.Binding{Buffer: a.x, Offset: 4, Bytes: 396}
				c.SetPipeline(a.add.pipeline)
				c.SetBuffers(0, metal.Binding{Buffer: a.short}, a.add.bindings[1],
					a.add.bindings[2])
				c.Dispatch("add", a.add.groups, a.add.threads)
			}},
		{"parameters that the dispatch writes", "aliases buffer 0",
			func(a *adder, c metal.Commands) {
				a.add.bindings[2] = metal.Binding{Buffer: a.p}
				a.add.record(c, "add")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAdder(t, Options{Check: true})
			commands := a.d.NewCommands()
			c.record(a, commands)
			commands.Commit(nil)
			err := commands.Wait()
			if c.want == "" {
				if err != nil || float32s(a.y)[99] != 101 {
					t.Errorf("got %v and %g, expected 101", err, float32s(a.y)[99])
				}
				return
			}
			mentions(t, err, c.want)
		})
	}
}

// TestRecordAgain checks that recording after Commit is a mistake and after Wait starts anew.
func TestRecordAgain(t *testing.T) {
	a := newAdder(t, Options{Check: true})
	c := a.d.NewCommands()
	for round := range 3 {
		a.add.record(c, "add")
		called := 0
		c.Commit(func(err error) { called++ })
		if err := c.Wait(); err != nil || called != 1 || c.GPUTime() <= 0 {
			t.Fatalf("round %d: got %v, %d calls, %g s", round, err, called, c.GPUTime())
		}
	}
	a.add.record(c, "add")
	c.Commit(nil)
	c.Dispatch("add", a.add.groups, a.add.threads)
	mentions(t, c.Wait(), `dispatch "add" after Commit`)
	c.Dispatch("add", a.add.groups, a.add.threads)
	mentions(t, c.Wait(), "no pipeline")
}

// TestShuffledOrder checks that the seed determines the order of dispatches between barriers. Each
// kernel appends its number to a list.
func TestShuffledOrder(t *testing.T) {
	const source = `#include <metal_stdlib>
using namespace metal;
struct P { uint number; };
kernel void note(constant P& p [[buffer(0)]], device uint* list [[buffer(1)]]) {
  list[0] += 1;
  list[list[0]] = p.number;
}
`
	order := func(seed uint64) (list string) {
		d := open(t, Options{Seed: seed})
		p := pipelineOf(t, d, source, "note")
		out := put(t, d, "list", make([]uint32, 20))
		c := d.NewCommands()
		for i := range 16 {
			if i == 8 {
				c.Barrier()
			}
			call{pipeline: p, bindings: bind(put(t, d, "p", uint32('a'+i)), out), groups: one,
				threads: one}.record(c, "note")
		}
		c.Commit(nil)
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= 16; i++ {
			list += string(rune(out.Bytes()[4*i]))
		}
		return list
	}
	one, again, other := order(1), order(1), order(2)
	if one != again || one == other || one == "abcdefghijklmnop" {
		t.Errorf(
			"seeds 1, 1, 2 gave %s, %s, %s: expected two equal ones and another, none of them in "+
				"order", one, again, other)
	}
	if strings.ContainsAny(one[:8], "ijklmnop") {
		t.Errorf("%s: a dispatch ran on the wrong side of the barrier", one)
	}
}

// TestConflicts checks that two dispatches that access the same bytes need a barrier only if one of
// them writes.
func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		barrier bool
		second  func(a *adder) []metal.Binding
		want    string
	}{
		{"the second reads what the first writes", false,
			func(a *adder) []metal.Binding { return bind(a.p, a.y, a.x) },
			`no barrier between dispatch "one", which writes bytes [0, 400) of "y"`},
		{"with a barrier", true, func(a *adder) []metal.Binding { return bind(a.p, a.y, a.x) }, ""},
		{"both write the same", false,
			func(a *adder) []metal.Binding { return bind(a.p, a.x, a.y) },
			`which writes bytes [0, 400) of "y" (buffer 2, y), and dispatch "two", which writes them`},
		{"both read the same", false,
			func(a *adder) []metal.Binding { return bind(a.p, a.x, a.short) }, ""},
		{"they share a buffer but no bytes", false, func(a *adder) []metal.Binding {
			return []metal.Binding{{Buffer: a.small}, {Buffer: a.x, Bytes: 40},
				{Buffer: a.wide, Offset: 400, Bytes: 40}}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAdder(t, Options{Check: true})
			a.short = put(t, a.d, "z", make([]float32, 100))
			a.small, a.wide = put(t, a.d, "small", addParams{10, 1}),
				put(t, a.d, "wide", make([]float32, 200))
			commands := a.d.NewCommands()
			first := a.add
			if strings.Contains(c.name, "share a buffer") {
				first.bindings = bind(a.p, a.x, a.wide)
			}
			first.record(commands, "one")
			if c.barrier {
				commands.Barrier()
			}
			second := a.add
			second.bindings = c.second(a)
			second.record(commands, "two")
			commands.Commit(nil)
			err := commands.Wait()
			if c.want != "" {
				mentions(t, err, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoConflictOfReaders checks that dispatches need no barrier for memory that they could write
// but only read.
func TestNoConflictOfReaders(t *testing.T) {
	a := newAdder(t, Options{Check: true})
	c := a.d.NewCommands()
	for _, out := range []metal.Buffer{a.y, put(t, a.d, "z", make([]float32, 100))} {
		call{pipeline: a.pipeline(t, "peek"), bindings: bind(a.x, out), groups: one,
			threads: metal.Size{X: 64, Y: 1, Z: 1}}.record(c, "peek")
	}
	c.Commit(nil)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// TestConcurrentPipelines checks that several goroutines get the same pipeline.
func TestConcurrentPipelines(t *testing.T) {
	a := newAdder(t, Options{})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 200 {
				if p, err := a.lib.Pipeline("add"); err != nil || p != a.add.pipeline {
					t.Errorf("got %v, %v", p, err)
					return
				}
			}
		})
	}
	wait.Wait()
	_, err := a.lib.Pipeline("subtract")
	mentions(t, err, "add.metal has no kernel subtract; it has add, reverse, peek, few")
}

func TestFunctionConstants(t *testing.T) {
	d := open(t, Options{})
	lib := compile(t, d, "c.metal", `#include <metal_stdlib>
using namespace metal;
constant uint offset [[function_constant(0)]];
constant float scale [[function_constant(3)]];
constant bool twice [[function_constant(1)]];
kernel void k(device float* x [[buffer(0)]], device float* y [[buffer(1), function_constant(twice)]], uint i [[thread_position_in_grid]]) {
  x[i] = float(i + offset) * scale;
  if (twice) {
    y[i] = 2.0f * x[i];
  }
}
`)
	value := func(name string, v any) metal.ConstantValue {
		return metal.ConstantValue{Name: name, Value: v}
	}
	offset, scale := value("offset", uint32(10)), value("scale", float32(0.5))
	for _, c := range []struct {
		constants []metal.ConstantValue
		want      string
	}{
		{[]metal.ConstantValue{offset, scale}, "function constant twice has no value"},
		{[]metal.ConstantValue{offset, scale, value("twice", uint32(1))},
			"expected Go's type for bool"},
		{[]metal.ConstantValue{offset, scale, value("twice", true), value("more", true)},
			"got 4 function constants, the source declares 3"},
	} {
		_, err := lib.Pipeline("k", c.constants...)
		mentions(t, err, c.want)
	}
	for _, twice := range []bool{false, true} {
		p, err := lib.Pipeline("k", offset, scale, value("twice", twice))
		if err != nil {
			t.Fatal(err)
		}
		x, y := put(t, d, "x", make([]float32, 4)), put(t, d, "y", make([]float32, 4))
		bound := bind(x)
		if twice {
			bound = bind(x, y)
		}
		if err := (call{pipeline: p, bindings: bound, groups: one,
			threads: metal.Size{X: 4, Y: 1, Z: 1}}).run(d); err != nil {
			t.Fatal(err)
		}
		if got := float32s(x)[3]; got != 6.5 || twice && float32s(y)[3] != 13 {
			t.Errorf("twice %t: got %g and %g, expected 6.5 and 13 or 0", twice, got,
				float32s(y)[3])
		}
	}
}

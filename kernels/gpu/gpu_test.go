package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/metal"
	"headroom/metal/msl"
	"headroom/metal/sim"
)

var testSource = &Source{Name: "test.metal", Text: `#include <metal_stdlib>
using namespace metal;
struct AddParams { uint n; float by; };
kernel void add(
    constant AddParams& p [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device float* out     [[buffer(2)]],
    uint i [[thread_position_in_grid]]) {
  if (i < p.n) {
    out[i] = x[i] + p.by;
  }
}
`}

type addParams struct {
	N  uint32
	By float32
}

var addKernel = NewKernel[addParams](testSource, "add")

// add computes out = x + by.
type add struct {
	x, out kernels.Tensor
	by     float32
}

func (o *add) Name() string { return "add" }
func (o *add) Check() error {
	return kernels.CheckShape("out", o.out, kernels.F32, o.x.Rows, o.x.Cols)
}
func (o *add) Reference()       {}
func (o *add) CPU(*cpu.Context) {}
func (o *add) Metal(c *Context) {
	n := o.x.Cols
	addKernel.Dispatch(c, addParams{uint32(n), o.by}, Rows((n+31)/32, 32), Read(o.x), Write(o.out))
}

// recording is a metal.Device that lists the calls it receives.
type recording struct{ events []string }

func (d *recording) Facts() metal.Facts {
	return metal.Facts{Name: "recording", PageBytes: 4096, MaxBufferLength: 1 << 40}
}
func (d *recording) NewLibrary(name, source string, headers fs.FS) (metal.Library, error) {
	p, err := msl.Parse(name, source)
	return &recordedLibrary{p}, err
}
func (d *recording) NewBuffer(label string, bytes int) (metal.Buffer, error) {
	return &recordedBuffer{label, make([]byte, bytes)}, nil
}
func (d *recording) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	return &recordedBuffer{label, memory}, nil
}
func (d *recording) MakeResident(label string, buffers []metal.Buffer) error {
	for _, b := range buffers {
		label += ", " + b.Label()
	}
	d.events = append(d.events, label)
	return nil
}
func (d *recording) Free(metal.Buffer)           {}
func (d *recording) NewCommands() metal.Commands { return &recordedCommands{d: d} }
func (d *recording) Close()                      {}

type recordedBuffer struct {
	label  string
	memory []byte
}

func (b *recordedBuffer) Bytes() []byte { return b.memory }
func (b *recordedBuffer) Label() string { return b.label }

type recordedLibrary struct{ p *msl.Program }

func (l *recordedLibrary) Program() *msl.Program { return l.p }
func (l *recordedLibrary) Log() string           { return "" }
func (l *recordedLibrary) Pipeline(
	kernel string, _ ...metal.ConstantValue,
) (metal.Pipeline, error) {
	k := l.p.Kernel(kernel)
	if k == nil {
		return nil, fmt.Errorf("no kernel %s", kernel)
	}
	return recordedPipeline{k}, nil
}

type recordedPipeline struct{ k *msl.Kernel }

func (p recordedPipeline) Facts() metal.PipelineFacts {
	return metal.PipelineFacts{ThreadExecutionWidth: 32, MaxTotalThreadsPerThreadgroup: 256}
}
func (p recordedPipeline) Kernel() *msl.Kernel { return p.k }

type recordedCommands struct {
	d       *recording
	bound   [4]metal.Binding
	silent  bool
	waiting bool
}

func (c *recordedCommands) note(event string) {
	if !c.silent {
		c.d.events = append(c.d.events, event)
	}
}
func (c *recordedCommands) SetPipeline(metal.Pipeline) {}
func (c *recordedCommands) SetBuffers(first int, b ...metal.Binding) {
	copy(c.bound[first:], b)
}
func (c *recordedCommands) SetThreadgroupMemory(index, bytes int)             { c.note("memory") }
func (c *recordedCommands) Dispatch(label string, groups, threads metal.Size) { c.note(label) }
func (c *recordedCommands) Barrier()                                          { c.note("|") }
func (c *recordedCommands) Commit(func(error)) {
	c.note("commit")
	c.waiting = true
}
func (c *recordedCommands) Wait() error {
	c.note("wait")
	c.waiting = false
	return nil
}
func (c *recordedCommands) GPUTime() float64 { return 0 }

func newRecording(t *testing.T) (*recording, *Device) {
	t.Helper()
	m := &recording{}
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return m, d
}

// TestMakeResident checks that every buffer is made resident once, and weights in a separate set.
func TestMakeResident(t *testing.T) {
	m, d := newRecording(t)
	file := cpu.Map(8192)
	defer cpu.Unmap(file)
	d.WrapBuffer(file[:5000])
	d.NewBuffer(10)
	for range 2 {
		if err := d.MakeResident(); err != nil {
			t.Fatal(err)
		}
	}
	d.NewBuffer(20)
	if err := d.MakeResident(); err != nil {
		t.Fatal(err)
	}
	want := []string{"weights, weights", "memory, parameters 0, parameters 1, buffer",
		"memory, buffer"}
	if !slices.Equal(m.events, want) {
		t.Errorf("got %q, expected %q", m.events, want)
	}
}

// TestBarriers checks that a barrier comes before a dispatch if and only if the dispatch reads or
// writes memory that another one has written since the last barrier, or writes memory that another
// one has read.
func TestBarriers(t *testing.T) {
	_, spare := newRecording(t)
	a, b, c := kernels.NewTensor(spare, kernels.F32, 1, 64),
		kernels.NewTensor(spare, kernels.F32, 1, 64), kernels.NewTensor(spare, kernels.F32, 1, 64)
	file := cpu.Map(256) // whole pages, like a mapped file
	defer cpu.Unmap(file)
	weights := spare.WrapBuffer(file)
	w := kernels.Tensor{Buffer: weights, DType: kernels.F32, Rows: 1, Cols: 64, Stride: 64}
	for _, x := range []struct {
		name string
		ops  []*add
		want string
	}{
		{"independent", []*add{{x: a, out: b}, {x: a, out: c}}, "add add"},
		{"read after write", []*add{{x: a, out: b}, {x: b, out: c}}, "add | add"},
		{"write after read", []*add{{x: a, out: b}, {x: c, out: a}}, "add | add"},
		{"write after write", []*add{{x: a, out: c}, {x: b, out: c}}, "add | add"},
		{"in place", []*add{{x: a, out: a}}, "add"},
		{"a barrier covers all earlier work",
			[]*add{{x: a, out: b}, {x: b, out: c}, {x: a, out: a}}, "add | add add"},
		{"different parts of a buffer",
			[]*add{{x: a, out: b.Columns(0, 32)}, {x: a, out: b.Columns(32, 64)}}, "add add"},
		{"parts that overlap", []*add{{x: a, out: b.Columns(0, 33)},
			{x: a, out: b.Columns(32, 64)}}, "add | add"},
		{"weights are never written", []*add{{x: w, out: b}, {x: w, out: c}}, "add add"},
		{"nothing to do", []*add{{x: a.Columns(0, 0), out: b.Columns(0, 0)}, {x: b, out: c}},
			"add"},
	} {
		m, d := newRecording(t)
		for _, op := range x.ops {
			op.x.Cols = min(op.x.Cols, op.out.Cols)
			d.Run(op)
		}
		if got := strings.Join(m.events, " "); got != x.want {
			t.Errorf("%s: got %s, expected %s", x.name, got, x.want)
		}
	}
}

// TestRecordersTakeTurns checks that a full recorder is committed and the next one used, and that
// the parameters of running work are not overwritten.
func TestRecordersTakeTurns(t *testing.T) {
	m, d := newRecording(t)
	a, b := kernels.NewTensor(d, kernels.F32, 1, 8), kernels.NewTensor(d, kernels.F32, 1, 8)
	for i := range 2*maxDispatches + 1 {
		d.Run(&add{x: a, out: b, by: float32(i)})
		rec := &d.context.recorders[d.context.current]
		bound := rec.commands.(*recordedCommands).bound[0]
		if got := binary.LittleEndian.Uint32(bound.Buffer.Bytes()[bound.Offset:]); got != 8 ||
			bound.Buffer != rec.params || bound.Offset%paramAlign != 0 || bound.Bytes != 8 {
			t.Fatalf("dispatch %d: parameters %d at %d of %q", i, got, bound.Offset,
				bound.Buffer.Label())
		}
	}
	var turns []string
	for _, e := range m.events {
		if e == "commit" || e == "wait" {
			turns = append(turns, e)
		}
	}
	if got := strings.Join(turns, " "); got != "commit commit wait" {
		t.Errorf("got %s, expected two commits, and a wait before the first recorder is used again",
			got)
	}
	if err := d.Sync(); err != nil || d.context.recorders[0].used+d.context.recorders[1].used != 0 {
		t.Errorf("got %v after Sync, with %d and %d bytes of parameters", err,
			d.context.recorders[0].used, d.context.recorders[1].used)
	}
}

// TestAhead records ahead of the device. Work after a commit goes to another recorder. Waiting for
// a commit neither waits for later commits nor drops the work that is being recorded.
func TestAhead(t *testing.T) {
	m, d := newRecording(t)
	a, b := kernels.NewTensor(d, kernels.F32, 1, 8), kernels.NewTensor(d, kernels.F32, 1, 8)
	pass := func() kernels.Ticket { d.Run(&add{x: a, out: b}); return d.Commit() }
	first := pass()
	for range 3 {
		second := pass()
		if err := d.Wait(first); err != nil {
			t.Fatal(err)
		}
		first = second
	}
	if d.Commit() != first {
		t.Error("an empty commit got a new ticket")
	}
	d.Run(&add{x: a, out: b})
	if err := d.Wait(first); err != nil {
		t.Fatal(err)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	const want = "add commit add commit wait add commit wait add commit wait add wait commit wait"
	if got := strings.Join(m.events, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestIdleGPU counts commits while passes are recorded: an idle GPU gets the first dispatches at
// once, and one that has work gets whole passes.
func TestIdleGPU(t *testing.T) {
	m, d := newRecording(t)
	a, b := kernels.NewTensor(d, kernels.F32, 1, 8), kernels.NewTensor(d, kernels.F32, 1, 8)
	pass := func(dispatches int) (commits int) {
		m.events = m.events[:0]
		for range dispatches {
			d.Run(&add{x: a, out: b})
		}
		for _, e := range m.events {
			if e == "commit" {
				commits++
			}
		}
		return commits
	}
	for range 2 {
		if n := pass(firstDispatches); n != 0 {
			t.Errorf("idle, %d dispatches: %d commits, expected none", firstDispatches, n)
		}
		if n := pass(firstDispatches); n != 1 {
			t.Errorf("idle, as many again: %d commits, expected one", n)
		}
		first := d.Commit()
		if n := pass(3 * firstDispatches); n != 0 {
			t.Errorf("at work: %d commits, expected none", n)
		}
		d.Commit()
		if err := d.Wait(first); err != nil {
			t.Fatal(err)
		}
		if n := pass(3 * firstDispatches); n != 0 {
			t.Errorf("still at work: %d commits, expected none", n)
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSources checks that every .metal file compiles, even one that no operator uses.
func TestSources(t *testing.T) {
	// with the options of the cases, whose compiled kernels are cached
	m, err := sim.Open(sim.Options{Check: true})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	files, err := filepath.Glob("../*/*.metal")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.NewLibrary(strings.TrimPrefix(filepath.ToSlash(f), "../"), string(text),
			Headers); err != nil {
			t.Error(err)
		}
	}
}

func TestDispatchAllocatesNothing(t *testing.T) {
	_, d := newRecording(t)
	for i := range d.context.recorders {
		d.context.recorders[i].commands.(*recordedCommands).silent = true
	}
	op := &add{x: kernels.NewTensor(d, kernels.F32, 1, 8),
		out: kernels.NewTensor(d, kernels.F32, 1, 8)}
	for range maxAccesses {
		d.Run(op)
	}
	if n := testing.AllocsPerRun(3*maxDispatches, func() { d.Run(op) }); n != 0 {
		t.Errorf("a dispatch makes %g allocations, expected none", n)
	}
}

// wrong is an operator with any Metal method.
type wrong struct {
	add
	metal func(c *Context, o *add)
}

func (o *wrong) Metal(c *Context) { o.metal(c, &o.add) }

// TestMistakes checks that Sync returns the first difference between the Go side and the source.
func TestMistakes(t *testing.T) {
	swapped := NewKernel[struct {
		By float32
		N  uint32
	}](testSource, "add")
	missing := NewKernel[addParams](testSource, "subtract")
	empty := NewKernel[addParams](&Source{"empty.metal", "kernel int k() {}"}, "k")
	noParams := NewKernel[addParams](
		&Source{"bare.metal",
			"struct AddParams { uint n; float by; };\nkernel void k(device AddParams& p " +
				"[[buffer(0)]]) {}"}, "k")
	for want, metal := range map[string]func(c *Context, o *add){
		"add: test.metal: add: got 1 operands, the source has 2 buffers": func(
			c *Context, o *add,
		) {
			addKernel.Dispatch(c, addParams{}, Rows(1, 32), Read(o.x))
		},
		"operand 0, x (device const float *): written is true": func(c *Context, o *add) {
			addKernel.Dispatch(c, addParams{}, Rows(1, 32), Write(o.x), Write(o.out))
		},
		"operand 1, out (device float *): written is false": func(c *Context, o *add) {
			addKernel.Dispatch(c, addParams{}, Rows(1, 32), Read(o.x), Read(o.out))
		},
		"this device allows 256": func(c *Context, o *add) {
			addKernel.Dispatch(c, addParams{}, Rows(1, 512), Read(o.x), Write(o.out))
		},
		"field 0 is By float32": func(c *Context, o *add) {
			swapped.Dispatch(c, struct {
				By float32
				N  uint32
			}{}, Rows(1, 32), Read(o.x), Write(o.out))
		},
		"no kernel subtract": func(c *Context, o *add) {
			missing.Dispatch(c, addParams{}, Rows(1, 32))
		},
		"empty.metal:1: kernel k returns": func(c *Context, o *add) {
			empty.Dispatch(c, addParams{}, Rows(1, 32))
		},
		"expected constant Params& p": func(c *Context, o *add) {
			noParams.Dispatch(c, addParams{}, Rows(1, 32))
		},
	} {
		m, d := newRecording(t)
		a := kernels.NewTensor(d, kernels.F32, 1, 8)
		d.Run(&wrong{add{x: a, out: a}, metal})
		d.Run(&add{x: a, out: a}) // not recorded after an error
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), want) ||
			len(m.events) > 0 {
			t.Errorf("got %v and events %v, expected %q and none", err, m.events, want)
		}
	}
}

type cpuOnly struct{ kernels.Op }

func (cpuOnly) Name() string { return "abacus" }
func (cpuOnly) Check() error { return nil }

func TestPanics(t *testing.T) {
	_, d := newRecording(t)
	host := kernels.NewReference()
	defer host.Close()
	foreign := kernels.NewTensor(host, kernels.F32, 1, 1)
	for want, f := range map[string]func(){
		"operator abacus has no Metal kernel": func() { d.Run(cpuOnly{}) },
		"belongs to another device":           func() { Read(foreign) },
		"bytes [4, 12) in a buffer of 8":      func() { ReadBytes(d.NewBuffer(8), 4, 12) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got %s, expected a panic with %q", got, want)
				}
			}()
			f()
		}()
	}
}

// TestChainOnSimulation runs a chain of operators on the simulated device, which reports missing
// barriers. The weights have any offset in wrapped memory.
func TestChainOnSimulation(t *testing.T) {
	m, err := sim.Open(sim.Options{Check: true, Seed: 5})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const n = 100
	file := cpu.Map(3 * 4096)
	defer cpu.Unmap(file)
	weights := kernels.Tensor{Buffer: d.WrapBuffer(file[4096+12 : 4096+12+4*n]), DType: kernels.F32,
		Rows: 1, Cols: n, Stride: n}
	for i := range weights.Float32s() {
		weights.Float32s()[i] = float32(i)
	}
	a, b := kernels.NewTensor(d, kernels.F32, 1, n), kernels.NewTensor(d, kernels.F32, 1, n)
	d.Run(&add{x: weights, out: a, by: 1})
	d.Run(&add{x: a, out: b, by: 10})
	d.Run(&add{x: b, out: a, by: 100})
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := a.Float32s(); got[0] != 111 || got[n-1] != 210 {
		t.Errorf("got %g and %g, expected 111 and 210", got[0], got[n-1])
	}
	if d.context.barriers != 2 {
		t.Errorf("got %d barriers, expected 2", d.context.barriers)
	}
}

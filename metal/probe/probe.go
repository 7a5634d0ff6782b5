// Package probe tests a Metal device and its Go binding: argument passing, structs, function
// constants, offsets, threadgroup memory, order between dispatches and commits, simdgroups, matrix
// units, compiler messages, wrapped memory. It also reports how the device rounds (numbers.go) and
// what calls cost (timing.go). It knows nothing of models. `headroom selftest` prints its results.
//
// Each probe runs a kernel of probe.metal whose result the host knows. On an untested device the
// name of the probe that fails says what is broken. Without probes a model would fail somewhere in
// the middle.
package probe

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"headroom/metal"
)

//go:embed probe.metal
var text string

// Result is the result of one probe.
type Result struct {
	Name string
	Err  error // nil if the probe passed
}

// Probe runs probes on a device.
type Probe struct {
	d       metal.Device
	library metal.Library
	compile time.Duration
	c       metal.Commands
	err     error // of the current probe
}

// New compiles the kernels on d. The caller closes d.
func New(d metal.Device) (*Probe, error) {
	began := time.Now()
	library, err := d.NewLibrary("probe.metal", text, nil)
	if err != nil {
		return nil, err
	}
	return &Probe{d: d, library: library, compile: time.Since(began), c: d.NewCommands()}, nil
}

// Compile returns how long the compiler took, and its warnings.
func (p *Probe) Compile() (time.Duration, string) { return p.compile, p.library.Log() }

// Run runs all probes.
func (p *Probe) Run() []Result {
	var all []Result
	for _, x := range []struct {
		name string
		f    func() error
	}{
		{"sizes and positions in three dimensions", p.place},
		{"parameters, function constants, offsets, half", p.echo},
		{"threadgroup memory", p.turn},
		{"barriers between dispatches", p.barriers},
		{"order of commits, completion handler", p.commits},
		{"lanes of a simdgroup", p.lanes},
		{"simdgroup matrices", p.matrix},
		{"wrapped memory", p.wrapped},
		{"messages of the compiler", p.messages},
	} {
		p.err = nil
		err := x.f()
		all = append(all, Result{x.name, errors.Join(p.err, err)})
	}
	return all
}

// put returns a buffer of 32-bit values, nil after an error.
func (p *Probe) put(values ...uint32) metal.Buffer {
	b, err := p.d.NewBuffer("probe", 4*len(values))
	if err != nil {
		p.fail(err)
		return nil
	}
	for i, v := range values {
		binary.LittleEndian.PutUint32(b.Bytes()[4*i:], v)
	}
	return b
}

func floats(values ...float32) []uint32 {
	all := make([]uint32, len(values))
	for i, v := range values {
		all[i] = math.Float32bits(v)
	}
	return all
}

// get reads a buffer of 32-bit values. It returns nil for a nil buffer.
func get(b metal.Buffer) []uint32 {
	if b == nil {
		return nil
	}
	all := make([]uint32, len(b.Bytes())/4)
	for i := range all {
		all[i] = binary.LittleEndian.Uint32(b.Bytes()[4*i:])
	}
	return all
}

func (p *Probe) fail(err error) { p.err = errors.Join(p.err, err) }

// constants are the values of the source's function constants.
var constants = []metal.ConstantValue{{Name: "flag", Value: true},
	{Name: "shift", Value: int32(-7)}, {Name: "mask", Value: uint32(4242)},
	{Name: "factor", Value: float32(0.375)}}

// dispatch records a kernel with buffers bound from index 0 on.
func (p *Probe) dispatch(c metal.Commands, kernel string, groups, threads metal.Size,
	buffers ...metal.Buffer) {
	if p.err != nil {
		return
	}
	pipeline, err := p.library.Pipeline(kernel, constants...)
	if err != nil {
		p.fail(err)
		return
	}
	if f := pipeline.Facts(); f.ThreadExecutionWidth != 32 ||
		threads.Count() > f.MaxTotalThreadsPerThreadgroup {
		p.fail(fmt.Errorf("%s: got simdgroups of %d threads and threadgroups of at most %d, "+
			"expected 32 and at least %d", kernel, f.ThreadExecutionWidth,
			f.MaxTotalThreadsPerThreadgroup, threads.Count()))
		return
	}
	c.SetPipeline(pipeline)
	bindings := make([]metal.Binding, len(buffers))
	for i, b := range buffers {
		bindings[i].Buffer = b
	}
	c.SetBuffers(0, bindings...)
	c.Dispatch(kernel, groups, threads)
}

// finish runs the recording. It returns false after any error.
func (p *Probe) finish(c metal.Commands) bool {
	if p.err == nil {
		c.Commit(nil)
	}
	if err := c.Wait(); err != nil {
		p.fail(err)
	}
	return p.err == nil
}

// expect returns an error unless got begins with want. what describes the values.
func expect(what string, got, want []uint32) error {
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			return fmt.Errorf("%s: value %d is %#x, expected %#x", what, i,
				append(got, make([]uint32, len(want))...)[i], want[i])
		}
	}
	return nil
}

var one = metal.Size{X: 1, Y: 1, Z: 1}

func line(n int) metal.Size { return metal.Size{X: n, Y: 1, Z: 1} }

func (p *Probe) place() error {
	groups, threads := metal.Size{X: 2, Y: 3, Z: 5}, metal.Size{X: 8, Y: 6, Z: 2}
	width, height, depth := groups.X*threads.X, groups.Y*threads.Y, groups.Z*threads.Z
	params, out := p.put(uint32(width), uint32(height)),
		p.put(make([]uint32, 4*width*height*depth)...)
	p.dispatch(p.c, "place", groups, threads, params, out)
	if !p.finish(p.c) {
		return nil
	}
	want := make([]uint32, 0, 4*width*height*depth)
	for z := range depth {
		for y := range height {
			for x := range width {
				tid := uint32((z%threads.Z*threads.Y+y%threads.Y)*threads.X + x%threads.X)
				want = append(want, uint32(x/threads.X|y/threads.Y<<8|z/threads.Z<<16), tid, tid%32,
					tid/32)
			}
		}
	}
	return expect("threadgroup, thread, lane and simdgroup of each thread", get(out), want)
}

func (p *Probe) echo() error {
	negative := int32(-9)
	// the struct begins at the second value
	params := p.put(7, 17, uint32(negative), math.Float32bits(2.5))
	x, h, out := p.put(floats(1, 3.25)...), p.put(0, 0x4400<<16), p.put(make([]uint32, 9)...)
	if p.err != nil {
		return nil
	}
	pipeline, err := p.library.Pipeline("echo", constants...)
	if err != nil {
		return err
	}
	p.c.SetPipeline(pipeline)
	p.c.SetBuffers(2, metal.Binding{Buffer: h, Offset: 4}, metal.Binding{Buffer: out})
	p.c.SetBuffers(0, metal.Binding{Buffer: params, Offset: 4}, metal.Binding{Buffer: x, Offset: 4})
	p.c.Dispatch("echo", one, line(32))
	if !p.finish(p.c) {
		return nil
	}
	return expect(
		"uint, int, float, float operand, half operand, bool, int, uint and float constant",
		get(out), floats(17, -9, 2.5, 3.25, 0, 1, -7, 4242, 0.375))
}

func (p *Probe) turn() error {
	const n = 1024
	x, want := make([]uint32, n), make([]uint32, n)
	for i := range x {
		x[i], want[i] = uint32(i*i), uint32((n-1-i)*(n-1-i))
	}
	params, b := p.put(n), p.put(x...)
	p.c.SetThreadgroupMemory(0, 4*n)
	p.dispatch(p.c, "turn", one, line(n), params, b)
	if !p.finish(p.c) {
		return nil
	}
	return expect("reversed values", get(b), want)
}

// chain returns the values x after a number of dispatches of the kernel step.
func chain(x []uint32, steps int) []uint32 {
	for range steps {
		next := make([]uint32, len(x))
		for i := range x {
			next[i] = 3*x[len(x)-1-i] + 1
		}
		x = next
	}
	return x
}

// steps records dispatches of the kernel step with a barrier after each. Each reads ab[0] and
// writes ab[1], which are then swapped, so that ab[0] is the result.
func (p *Probe) steps(c metal.Commands, params metal.Buffer, ab *[2]metal.Buffer, steps int) {
	n := len(ab[0].Bytes()) / 4
	for range steps {
		p.dispatch(c, "step", line((n+255)/256), line(256), params, ab[0], ab[1])
		c.Barrier()
		ab[0], ab[1] = ab[1], ab[0]
	}
}

const chained = 1 << 14 // values in a chain, enough for dispatches to overlap if they can

// chainBuffers returns the initial values of a chain, its parameters and its two buffers.
func (p *Probe) chainBuffers() (x []uint32, params metal.Buffer, ab [2]metal.Buffer) {
	x = make([]uint32, chained)
	for i := range x {
		x[i] = uint32(i)
	}
	return x, p.put(chained), [2]metal.Buffer{p.put(x...), p.put(make([]uint32, chained)...)}
}

func (p *Probe) barriers() error {
	x, params, ab := p.chainBuffers()
	if p.err != nil {
		return nil
	}
	const steps = 65
	p.steps(p.c, params, &ab, steps)
	if !p.finish(p.c) {
		return nil
	}
	what := fmt.Sprintf("%d dispatches, each reading the output of the previous one", steps)
	return expect(what, get(ab[0]), chain(x, steps))
}

func (p *Probe) commits() error {
	x, params, ab := p.chainBuffers()
	if p.err != nil {
		return nil
	}
	const commits, steps = 6, 3
	commands := [2]metal.Commands{p.c, p.d.NewCommands()}
	finished := make(chan error, commits)
	for i := range commits {
		c := commands[i%2]
		if i >= 2 {
			if err := c.Wait(); err != nil {
				p.fail(err)
			}
		}
		p.steps(c, params, &ab, steps)
		c.Commit(func(err error) { finished <- err })
	}
	for i := range commands {
		if err := commands[(commits+i)%2].Wait(); err != nil {
			p.fail(err)
		}
	}
	if len(finished) != commits {
		p.fail(fmt.Errorf("the completion handler was called %d times for %d commits",
			len(finished), commits))
	}
	if s := p.c.GPUTime(); s <= 0 || s > 60 {
		p.fail(fmt.Errorf("the GPU reports a time of %g s", s))
	}
	return expect("commits, each continuing from the previous one", get(ab[0]),
		chain(x, commits*steps))
}

func (p *Probe) lanes() error {
	const from = 21
	x, want := make([]uint32, 32), []uint32{}
	for i := range x {
		x[i] = uint32(1000 + 7*(i*11%32))
	}
	for i := range x {
		want = append(want, 32*1000+7*31*16, 1000+7*31, x[i^1], x[from])
	}
	params, in, out := p.put(from), p.put(x...), p.put(make([]uint32, 4*32)...)
	p.dispatch(p.c, "lanes", one, line(32), params, in, out)
	if !p.finish(p.c) {
		return nil
	}
	return expect("sum, largest, neighbour and lane 21 of the lanes", get(out), want)
}

func (p *Probe) matrix() error {
	// small integers, so that half and every order of summation are exact: a[i][k] = i + 2k,
	// b[j][k] = 3j - k
	half := func(v int) uint32 { // the float16 bits of an integer
		bits := math.Float32bits(float32(v))
		if v == 0 {
			return 0
		}
		return bits>>16&0x8000 | (bits>>23&0xff-112)<<10 | bits>>13&0x3ff
	}
	var a, b []uint32
	want := make([]float32, 64)
	for e := range 32 {
		i, k := e/4, e%4*2
		a = append(a, half(i+2*k)|half(i+2*k+2)<<16)
		b = append(b, half(3*i-k)|half(3*i-k-1)<<16)
	}
	for i := range 8 {
		for j := range 8 {
			want[8*i+j] = 5
			for k := range 8 {
				want[8*i+j] += float32((i + 2*k) * (3*j - k))
			}
		}
	}
	params, ma, mb, mc := p.put(5), p.put(a...), p.put(b...), p.put(make([]uint32, 64)...)
	p.dispatch(p.c, "matrix", one, line(32), params, ma, mb, mc)
	if !p.finish(p.c) {
		return nil
	}
	return expect("product of two matrices", get(mc), floats(want...))
}

func (p *Probe) messages() error {
	_, err := p.d.NewLibrary("broken.metal",
		"kernel void k(device float* x [[buffer(0)]]) {\n  x[0] = undeclared_name;\n}\n", nil)
	if err == nil {
		return errors.New("a source with a mistake compiled without an error")
	}
	if !strings.Contains(err.Error(), "undeclared_name") {
		return fmt.Errorf("the error lacks the compiler's message: %w", err)
	}
	if _, err := p.library.Pipeline("nobody", constants...); err == nil {
		return errors.New("a kernel that does not exist was found")
	}
	return nil
}

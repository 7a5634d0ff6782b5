// Package gpu runs operators on a Metal device, a Mac's or a simulated one.
//
// An operator that has a kernel implements Op: its Metal method names the kernel, the parameters
// and the operands, and says of each operand whether the kernel reads or writes it. From that the
// device works out where a barrier is needed: authors never place one. Kernels, their sources and
// their parameter structs are package-level values, checked against the source text when first
// used.
//
// The way of a dispatch:
//
//	Device.Run(op)       op.Metal(context)
//	  Kernel.Dispatch    parameters into the ring, hazards against what has been recorded since the last barrier, bindings, dispatch
//	Device.Sync          commit, wait; the first mistake of anything recorded
//
// Two recorders alternate, so that the host records while the GPU runs (Device.Commit,
// Device.Wait). Buffers live as long as the device.
package gpu

import (
	"embed"
	"fmt"
	"time"
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/metal"
)

// Op is an operator with a Metal kernel.
type Op interface {
	kernels.Op
	// Metal records the dispatches that compute the outputs.
	Metal(c *Context)
}

// Headers are what kernels may include: "common/reduce.h".
//
//go:embed common/*.h
var Headers embed.FS

// Device runs operators on m. It implements kernels.Device; one goroutine at a time may use it.
type Device struct {
	m       metal.Device
	context Context
	mapped  [][]byte       // memory of NewBuffer
	owned   []metal.Buffer // likewise, of a metal.Allocator

	weights, memory []metal.Buffer // of WrapBuffer, and all others: what MakeResident is for

	copied     int64 // bytes of WrapBuffer that lie in buffers of our own
	copyReason error // why the first of them does
}

// New makes a device over m, which stays the caller's to close, after this one. The error is m's,
// refusing memory.
func New(m metal.Device) (*Device, error) {
	d := &Device{m: m}
	c := &d.context
	c.m, c.libraries, c.pipelines, c.compiling = m, map[*Source]metal.Library{},
		map[*kernel]*ready{}, map[*Source]time.Duration{}
	for i := range c.recorders {
		params, err := m.NewBuffer(fmt.Sprintf("parameters %d", i), ringBytes)
		if err != nil {
			return nil, err
		}
		c.recorders[i] = recorder{commands: m.NewCommands(), params: params}
		d.memory = append(d.memory, params)
	}
	return d, nil
}

// memory is the Handle of a kernels.Buffer on this device.
type memory struct {
	buffer   metal.Buffer
	offset   int  // of the buffer's first byte in buffer
	readOnly bool // nobody writes it: no hazards
}

// Name implements kernels.Device.
func (d *Device) Name() string { return "Metal, " + d.m.Facts().Name }

// NewBuffer implements kernels.Device. The memory is the system's, wrapped for the GPU, where that
// can work on it: it is zero without being touched.
func (d *Device) NewBuffer(bytes int) *kernels.Buffer {
	if bytes == 0 {
		return &kernels.Buffer{}
	}
	if a, ok := d.m.(metal.Allocator); ok {
		b, err := a.Allocate("buffer", bytes)
		if err != nil {
			d.context.fail(err)
			return &kernels.Buffer{Bytes: make([]byte, bytes), Size: bytes, Handle: &memory{}}
		}
		d.owned = append(d.owned, b)
		return &kernels.Buffer{Bytes: b.Bytes(), Size: bytes, Handle: &memory{buffer: b}}
	}
	page := d.m.Facts().PageBytes
	pages := cpu.Map((bytes + page - 1) / page * page)
	d.mapped = append(d.mapped, pages)
	return &kernels.Buffer{Bytes: pages[:bytes], Size: bytes, Handle: d.wrap("buffer", pages)}
}

// WrapBuffer implements kernels.Device: the whole pages around bytes become visible to the GPU.
// What the device refuses, as it may refuse pages of the program itself, is copied instead; Copied
// tells.
func (d *Device) WrapBuffer(bytes []byte) *kernels.Buffer {
	if len(bytes) == 0 {
		return &kernels.Buffer{}
	}
	page := uintptr(d.m.Facts().PageBytes)
	start := unsafe.Pointer(unsafe.SliceData(bytes))
	offset := int(uintptr(start) % page)
	length := (uintptr(offset) + uintptr(len(bytes)) + page - 1) / page * page
	pages := unsafe.Slice((*byte)(unsafe.Add(start, -offset)), length)
	b, err := d.m.WrapBuffer("weights", pages)
	if err == nil {
		d.weights = append(d.weights, b)
		return &kernels.Buffer{Bytes: bytes, Size: len(bytes),
			Handle: &memory{buffer: b, offset: offset, readOnly: true}}
	}
	own := d.NewBuffer(len(bytes))
	m := own.Handle.(*memory)
	if m.readOnly = true; m.buffer != nil {
		copy(own.Bytes, bytes)
		d.copied += int64(len(bytes))
		if d.copyReason == nil {
			d.copyReason = err
		}
	}
	return own
}

// wrap never returns nil: what the device refuses is an error of everything recorded after.
func (d *Device) wrap(label string, pages []byte) *memory {
	b, err := d.m.WrapBuffer(label, pages)
	if err != nil {
		d.context.fail(err)
		return &memory{}
	}
	d.memory = append(d.memory, b)
	return &memory{buffer: b}
}

// MakeResident keeps all buffers made since it was last called where the GPU reaches them at once,
// also while it has nothing to do, until the Metal device is closed: weights as one set, everything
// else as another. Call it when what lives long has been made. Without it, or after an error,
// everything works, and the first pass after a rest may be slow.
func (d *Device) MakeResident() error {
	for _, set := range []struct {
		label   string
		buffers *[]metal.Buffer
	}{{"weights", &d.weights}, {"memory", &d.memory}} {
		if len(*set.buffers) == 0 {
			continue
		}
		if err := d.m.MakeResident(set.label, *set.buffers); err != nil {
			return err
		}
		*set.buffers = nil
	}
	return nil
}

// Run implements kernels.Device. It panics if op has no Metal kernel: a model that needs it must
// not come this far.
func (d *Device) Run(op kernels.Op) {
	kernels.MustCheck(op)
	o, ok := op.(Op)
	if !ok {
		panic(
			fmt.Sprintf(
				"gpu: Device.Run: operator %s has no Metal kernel; write one, or run the model on "+
					"the CPU", op.Name()))
	}
	d.context.op = op.Name()
	o.Metal(&d.context)
}

// Kernels are the kernels of all sources that this device has compiled, and whether each has been
// dispatched, from any of the sources that have one of its name: a text may be compiled for several
// formats. Tests look for kernels that no case reaches.
func (d *Device) Kernels() map[string]bool {
	all := map[string]bool{}
	for _, library := range d.context.libraries {
		for _, k := range library.Program().Kernels {
			all[k.Name] = false
		}
	}
	for k := range d.context.pipelines {
		all[k.name] = true
	}
	return all
}

// Sync implements kernels.Device. After an error the device computes no more.
func (d *Device) Sync() error { return d.context.sync() }

// Commit implements kernels.AsyncDevice. What is recorded after it goes into the other recorder,
// whose own work is waited for then.
func (d *Device) Commit() kernels.Ticket {
	d.context.commit()
	return d.context.commits
}

// Wait implements kernels.AsyncDevice. After an error the device computes no more.
func (d *Device) Wait(t kernels.Ticket) error { return d.context.waitFor(t) }

// Close implements kernels.Device. The Metal device must be closed after it, before another uses
// the memory.
func (d *Device) Close() {
	_ = d.Sync() // whoever wanted the results has synced
	for _, b := range d.mapped {
		cpu.Unmap(b)
	}
	for _, b := range d.owned {
		d.m.(metal.Allocator).Free(b)
	}
	d.mapped, d.owned = nil, nil
}

var _ kernels.AsyncDevice = (*Device)(nil)

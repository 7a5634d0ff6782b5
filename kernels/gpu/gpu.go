// Package gpu runs operators on a Metal device, real or simulated.
//
// An operator with a Metal kernel implements Op. Its Metal method names the kernel, the parameters
// and the operands, and marks each operand as read or written. The device derives the barriers from
// that: authors never place one. Kernels, their sources and their parameter structs are
// package-level values, which are checked against the source on first use.
//
// A dispatch takes these steps:
//
//	Device.Run       calls op.Metal(context)
//	Kernel.Dispatch  copies the parameters into a ring, records a barrier if the operands conflict
//	                 with dispatches since the last one, binds the operands and dispatches
//	Device.Sync      commits, waits and returns the first error of anything recorded
//
// Two recorders alternate, so that the host records while the GPU runs (Device.Commit,
// Device.Wait). Buffers live as long as the device. Several Metal buffers cover one that is longer
// than Metal allows (memory.go).
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

// Headers are the files that kernels may include, such as "common/reduce.h".
//
//go:embed common/*.h
var Headers embed.FS

// Device runs operators on a Metal device. It implements kernels.AsyncDevice. Only one goroutine
// may use it at a time.
type Device struct {
	m       metal.Device
	context Context
	mapped  [][]byte       // memory of NewBuffer
	owned   []metal.Buffer // memory of NewBuffer, of a metal.Allocator

	weights, memory []metal.Buffer // of WrapBuffer, and all others; MakeResident empties both

	copied     int64 // bytes of WrapBuffer that were copied
	copyReason error // why the first of them were copied
}

// New returns a device on m. The caller closes m after it. New returns an error if m refuses
// memory.
func New(m metal.Device) (*Device, error) {
	d := &Device{m: m}
	c := &d.context
	c.m, c.longest = m, m.Facts().MaxBufferLength
	c.libraries, c.pipelines, c.compiling = map[*Source]metal.Library{},
		map[*kernel]*ready{}, map[*Source]time.Duration{}
	for i := range c.recorders {
		params, err := m.NewBuffer(fmt.Sprintf("parameters %d", i), c.atMost(ringBytes))
		if err != nil {
			return nil, err
		}
		c.recorders[i] = recorder{commands: m.NewCommands(), params: params}
		d.memory = append(d.memory, params)
	}
	return d, nil
}

// Name implements kernels.Device.
func (d *Device) Name() string { return "Metal, " + d.m.Facts().Name }

// NewBuffer implements kernels.Device. The memory is the system's, wrapped for the GPU, or that of
// a metal.Allocator. The system's memory is zero without being touched.
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
		d.owned, d.memory = append(d.owned, b), append(d.memory, b)
		return &kernels.Buffer{Bytes: b.Bytes(), Size: bytes, Handle: oneBuffer(b)}
	}
	page := d.m.Facts().PageBytes
	pages := cpu.Map((bytes + page - 1) / page * page)
	d.mapped = append(d.mapped, pages)
	return &kernels.Buffer{Bytes: pages[:bytes], Size: bytes, Handle: d.wrap("buffer", pages)}
}

// WrapBuffer implements kernels.Device. It makes the whole pages around bytes visible to the GPU.
// If the Metal device refuses them, as it may refuse pages of the program itself, they are copied;
// Copied reports that.
func (d *Device) WrapBuffer(bytes []byte) *kernels.Buffer {
	if len(bytes) == 0 {
		return &kernels.Buffer{}
	}
	page := uintptr(d.m.Facts().PageBytes)
	start := unsafe.Pointer(unsafe.SliceData(bytes))
	offset := int(uintptr(start) % page)
	length := (uintptr(offset) + uintptr(len(bytes)) + page - 1) / page * page
	pages := unsafe.Slice((*byte)(unsafe.Add(start, -offset)), length)
	m, err := cover(d.m, "weights", pages)
	if err == nil {
		d.weights = append(d.weights, m.buffers...)
		m.offset, m.readOnly = offset, true
		return &kernels.Buffer{Bytes: bytes, Size: len(bytes), Handle: m}
	}
	own := d.NewBuffer(len(bytes))
	m = own.Handle.(*memory)
	if m.readOnly = true; len(m.buffers) > 0 {
		copy(own.Bytes, bytes)
		d.copied += int64(len(bytes))
		if d.copyReason == nil {
			d.copyReason = err
		}
	}
	return own
}

// wrap never returns nil. If the device refuses pages, everything recorded afterwards fails.
func (d *Device) wrap(label string, pages []byte) *memory {
	m, err := cover(d.m, label, pages)
	if err != nil {
		d.context.fail(err)
		return &memory{}
	}
	d.memory = append(d.memory, m.buffers...)
	return m
}

// MakeResident makes all buffers since its last call resident until the Metal device is closed:
// weights as one residency set, everything else as another. Call it when all long-lived buffers
// have been made. Without it, or after an error, everything works, but the first pass after an idle
// time may be slow.
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

// Run implements kernels.Device. It panics if op has no Metal kernel: a model that needs it must be
// refused when it is loaded.
func (d *Device) Run(op kernels.Op) {
	kernels.MustCheck(op)
	o, ok := op.(Op)
	if !ok {
		panic(fmt.Sprintf("gpu: Device.Run: operator %s has no Metal kernel: write one, or run "+
			"the model on the CPU", op.Name()))
	}
	d.context.op = op.Name()
	if d.context.pace.bound > 0 {
		d.context.runBounded(o)
		return
	}
	o.Metal(&d.context)
}

// Kernels returns the names of the kernels in all compiled sources, and whether a kernel of that
// name has been dispatched. Several sources may have a kernel of the same name, as a text may be
// compiled for several formats. Tests use it to find kernels that no case reaches.
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

// Sync implements kernels.Device. After an error the device runs nothing more.
func (d *Device) Sync() error { return d.context.sync() }

// Commit implements kernels.AsyncDevice. The next operators go into the other recorder, after
// waiting for its work.
func (d *Device) Commit() kernels.Ticket {
	d.context.commit()
	return d.context.commits
}

// Wait implements kernels.AsyncDevice. After an error the device runs nothing more.
func (d *Device) Wait(t kernels.Ticket) error { return d.context.waitFor(t) }

// Close implements kernels.Device. Close the Metal device after it, before the memory is used
// again.
func (d *Device) Close() {
	_ = d.Sync() // callers that need the error have called Sync
	for _, b := range d.mapped {
		cpu.Unmap(b)
	}
	for _, b := range d.owned {
		d.m.Free(b)
	}
	d.mapped, d.owned = nil, nil
}

var _ kernels.AsyncDevice = (*Device)(nil)

//go:build linux && amd64

package sim

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"headroom/metal"
	"headroom/metal/base"
	"headroom/metal/msl"
)

// Open makes a simulated device. The error wraps ErrUnavailable if clang or an instruction set of
// the CPU is missing.
func Open(o Options) (metal.Device, error) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !cpu.X86.HasBMI2 {
		return nil, fmt.Errorf("%w: this CPU lacks AVX2, FMA or BMI2", ErrUnavailable)
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Check {
		o.Threads = 1
	}
	if o.MaxBufferLength == 0 {
		o.MaxBufferLength = 1 << 40
	}
	c, err := newCompiler(o)
	if err != nil {
		return nil, err
	}
	rt, err := loadRuntime(c)
	if err != nil {
		return nil, err
	}
	d := &device{o: o, compiler: c, runtime: rt, queue: make(chan *commands, 64),
		buffers: map[*buffer]struct{}{}}
	go d.work()
	return d, nil
}

type device struct {
	o        Options
	compiler *compiler
	runtime  *cRuntime
	queue    chan *commands // committed, in order

	mu      sync.Mutex
	buffers map[*buffer]struct{}
	closed  bool
}

// work runs committed commands in order.
func (d *device) work() {
	var commits uint64
	for c := range d.queue {
		c.run(commits)
		commits++
	}
}

// Facts implements metal.Device.
func (d *device) Facts() metal.Facts {
	name := "simulated Metal device"
	if d.o.Check {
		name += ", checking"
	}
	return metal.Facts{
		Name: name, Families: []string{"Apple7", "Metal3"}, UnifiedMemory: true,
		MaxBufferLength:            d.o.MaxBufferLength,
		MaxThreadgroupMemoryLength: msl.MaxThreadgroupMemoryBytes, PageBytes: os.Getpagesize(),
		System: "Linux, " + d.compiler.version,
	}
}

// NewLibrary implements metal.Device.
func (d *device) NewLibrary(name, source string, headers fs.FS) (metal.Library, error) {
	_, program, err := base.ReadSource(name, source, headers)
	if err != nil {
		return nil, err
	}
	path, err := d.compiler.library(name, program)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return loadLibrary(name, program, path)
}

type buffer struct {
	d      *device
	label  string
	memory []byte
	mapped bool // the device unmaps it
}

func (b *buffer) Bytes() []byte { return b.memory }
func (b *buffer) Label() string { return b.label }
func (b *buffer) address() uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.memory))))
}

// NewBuffer implements metal.Device. A checking device fills the buffer with 0xFF, so that reads of
// unwritten memory give NaN.
func (d *device) NewBuffer(label string, bytes int) (metal.Buffer, error) {
	if err := base.CheckLength(label, bytes, d.o.MaxBufferLength); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("buffer %q of %d bytes: %w", label, bytes, err)
	}
	if d.o.Check {
		for i := range memory {
			memory[i] = 0xFF
		}
	}
	return d.keep(&buffer{d: d, label: label, memory: memory, mapped: true}), nil
}

// WrapBuffer implements metal.Device.
func (d *device) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if err := base.CheckPages(label, memory, os.Getpagesize()); err != nil {
		return nil, err
	}
	if err := base.CheckLength(label, len(memory), d.o.MaxBufferLength); err != nil {
		return nil, err
	}
	return d.keep(&buffer{d: d, label: label, memory: memory}), nil
}

func (d *device) keep(b *buffer) *buffer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buffers[b] = struct{}{}
	return b
}

// Free implements metal.Device. Commands that use the buffer afterwards fail.
func (d *device) Free(b metal.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, ok := b.(*buffer)
	if _, kept := d.buffers[own]; ok && kept {
		delete(d.buffers, own)
		own.release()
	}
}

func (b *buffer) release() {
	if b.mapped {
		_ = unix.Munmap(b.memory) // an error leaves it mapped until the process ends
	}
	b.memory = nil
}

// MakeResident implements metal.Device. It does nothing: this device uses the system's memory.
func (d *device) MakeResident(string, []metal.Buffer) error { return nil }

// Close implements metal.Device.
func (d *device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	close(d.queue)
	for b := range d.buffers {
		b.release()
	}
	clear(d.buffers)
}

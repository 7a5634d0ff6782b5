//go:build nv && linux

package nv

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"headroom/metal"
	"headroom/metal/base"
)

const (
	maxMirroredBytes = 1 << 20 // NewBuffer mirrors buffers up to this size
	maxSmallBytes    = 1 << 14 // Allocate mirrors buffers up to this size
	maxBufferLength  = 1 << 40
	pageBytes        = 4096
)

// buffer is memory of one of three kinds: managed (host and GPU share one address), mirrored (each
// has its own address), or wrapped (host memory, copied to the GPU once).
type buffer struct {
	d        *Device
	label    string
	memory   []byte
	gpu      uint64 // address
	mirrored bool
	wrapped  bool
	uploaded bool // a wrapped buffer has been copied to the GPU
	// writing holds the parts of a mirrored buffer that running commits write. The host's copy of
	// these parts is out of date.
	writing []extent
}

// extent is bytes [from, to) of a buffer.
type extent struct{ from, to int }

func (b *buffer) Bytes() []byte { return b.memory }
func (b *buffer) Label() string { return b.label }

// NewBuffer implements metal.Device.
func (d *Device) NewBuffer(label string, bytes int) (metal.Buffer, error) {
	if bytes > maxMirroredBytes || d.driver == nil {
		return d.Allocate(label, bytes)
	}
	return d.mirror(label, bytes)
}

// mirror returns a mirrored buffer, zeroed for the host.
func (d *Device) mirror(label string, bytes int) (metal.Buffer, error) {
	if err := base.CheckLength(label, bytes, maxBufferLength); err != nil {
		return nil, err
	}
	leave, err := d.driver.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	b := &buffer{d: d, label: label, mirrored: true}
	if b.gpu, err = get[uint64](d.driver, "cuMemAlloc", d.driver.memAlloc,
		uintptr(bytes)); err != nil {
		return nil, fmt.Errorf("buffer %q of %d bytes: %w", label, bytes, err)
	}
	host, err := get[unsafe.Pointer](d.driver, "cuMemAllocHost", d.driver.memAllocHost,
		uintptr(bytes))
	if err != nil {
		return nil, fmt.Errorf("buffer %q of %d bytes: %w", label, bytes, err)
	}
	b.memory = unsafe.Slice((*byte)(host), bytes)
	clear(b.memory)
	d.keep(b)
	return b, nil
}

// Allocate implements metal.Allocator. It returns managed memory, zeroed on the GPU. Small buffers,
// such as the tokens that a pass has chosen, are mirrored: a page of managed memory that the host
// reads takes over 100 µs to come and to go back, which unified memory does not.
func (d *Device) Allocate(label string, bytes int) (metal.Buffer, error) {
	if bytes <= maxSmallBytes && d.driver != nil {
		return d.mirror(label, bytes)
	}
	if err := base.CheckLength(label, bytes, maxBufferLength); err != nil {
		return nil, err
	}
	b := &buffer{d: d, label: label}
	if d.driver == nil {
		memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, fmt.Errorf("buffer %q of %d bytes: %w", label, bytes, err)
		}
		b.memory = memory
		d.keep(b)
		return b, nil
	}
	leave, err := d.driver.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := d.checkFree(bytes); err != nil {
		return nil, fmt.Errorf("buffer %q: %w", label, err)
	}
	host, err := get[unsafe.Pointer](d.driver, "cuMemAllocManaged", d.driver.memAllocManaged,
		uintptr(bytes), managedGlobal)
	if err == nil {
		err = d.driver.call("cuMemsetD8", d.driver.fill, uintptr(host), 0, uintptr(bytes))
	}
	if err != nil {
		return nil, fmt.Errorf("buffer %q of %d bytes: %w", label, bytes, err)
	}
	b.memory, b.gpu = unsafe.Slice((*byte)(host), bytes), uint64(uintptr(host))
	d.keep(b)
	return b, nil
}

// checkFree returns an error if managed memory would take more than half of the GPU's free memory.
// The driver would accept more, but swap pages with the host.
func (d *Device) checkFree(bytes int) error {
	total := new(uint64)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(total)
	free, err := get[uint64](d.driver, "cuMemGetInfo", d.driver.memGetInfo,
		uintptr(unsafe.Pointer(total)))
	if err == nil && uint64(bytes) > free/2 {
		err = fmt.Errorf("%d bytes are more than half of the %d that the GPU has free", bytes, free)
	}
	return err
}

// Free implements metal.Device.
func (d *Device) Free(m metal.Buffer) {
	b, ok := m.(*buffer)
	if !ok || b.d != d || b.memory == nil {
		return
	}
	d.mu.Lock()
	delete(d.buffers, b)
	d.mu.Unlock()
	if d.driver == nil {
		if !b.wrapped {
			_ = unix.Munmap(b.memory) // an error leaves it mapped until the process ends
		}
		b.memory = nil
		return
	}
	if leave, err := d.driver.enter(); err == nil {
		d.release(b)
		leave()
	}
}

// release frees a buffer's memory. The driver's context must be current. Memory that cannot be
// freed is lost until the process ends.
func (d *Device) release(b *buffer) {
	if b.gpu != 0 {
		_ = d.driver.call("cuMemFree", d.driver.memFree, uintptr(b.gpu))
	}
	if b.mirrored {
		_ = d.driver.call("cuMemFreeHost", d.driver.memFreeHost,
			uintptr(unsafe.Pointer(unsafe.SliceData(b.memory))))
	}
	b.memory, b.gpu = nil, 0
}

// WrapBuffer implements metal.Device. The host must not change memory once the GPU has used it.
func (d *Device) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if err := base.CheckPages(label, memory, pageBytes); err != nil {
		return nil, err
	}
	if err := base.CheckLength(label, len(memory), maxBufferLength); err != nil {
		return nil, err
	}
	b := &buffer{d: d, label: label, memory: memory, wrapped: true}
	d.keep(b)
	return b, nil
}

// uploadWrapped copies a wrapped buffer to the GPU, the first time. The driver's context must be
// current.
func (d *Device) uploadWrapped(b *buffer) (err error) {
	if b.uploaded {
		return nil
	}
	if b.gpu, err = get[uint64](d.driver, "cuMemAlloc", d.driver.memAlloc,
		uintptr(len(b.memory))); err != nil {
		return fmt.Errorf("copying %q, %d bytes, to the GPU: %w", b.label, len(b.memory), err)
	}
	b.uploaded = true
	return d.driver.call("cuMemcpyHtoD", d.driver.copyToDeviceNow, uintptr(b.gpu),
		uintptr(unsafe.Pointer(unsafe.SliceData(b.memory))), uintptr(len(b.memory)))
}

func (d *Device) keep(b *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buffers[b] = struct{}{}
}

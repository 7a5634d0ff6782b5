//go:build linux

package nv

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"headroom/metal"
)

const (
	// mirroredBytes is the largest buffer of NewBuffer that is copied to and fro.
	mirroredBytes = 1 << 20
	pageBytes     = 4096
)

// buffer is memory of one of three kinds: managed (host and GPU have the same address), mirrored
// (one address each), or wrapped (the host's, copied to the GPU once).
type buffer struct {
	d        *Device
	label    string
	memory   []byte
	gpu      uint64 // address
	mirrored bool
	wrapped  bool
	copied   bool // a wrapped one, to the GPU
	// of a mirrored one, by commits under way: there the host's bytes are older than the GPU's
	writing []extent
}

// extent is bytes [from, to) of a buffer.
type extent struct{ from, to int }

func (b *buffer) Bytes() []byte { return b.memory }
func (b *buffer) Label() string { return b.label }

// NewBuffer implements metal.Device.
func (d *Device) NewBuffer(label string, bytes int) (metal.Buffer, error) {
	if bytes > mirroredBytes || d.driver == nil {
		return d.Allocate(label, bytes)
	}
	if bytes <= 0 {
		return nil, fmt.Errorf("buffer %q: got %d bytes, expected at least 1", label, bytes)
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
	d.keep(b)
	return b, nil
}

// Allocate implements metal.Allocator: managed memory, filled with zeros on the GPU.
func (d *Device) Allocate(label string, bytes int) (metal.Buffer, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("buffer %q: got %d bytes, expected at least 1", label, bytes)
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
	if err := d.fits(bytes); err != nil {
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

// fits refuses managed memory that the GPU has no room for: the driver would take it and begin to
// swap with the host.
func (d *Device) fits(bytes int) error {
	total := new(uint64)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(total)
	free, err := get[uint64](d.driver, "cuMemGetInfo", d.driver.memGetInfo,
		uintptr(unsafe.Pointer(total)))
	if err == nil && uint64(bytes) > free/2 {
		err = fmt.Errorf("%d bytes are more than half of the %d that the GPU has free", bytes, free)
	}
	if err != nil {
		return err
	}
	return nil
}

// Free implements metal.Allocator.
func (d *Device) Free(m metal.Buffer) {
	b, ok := m.(*buffer)
	if !ok || b.d != d || b.memory == nil || b.wrapped {
		return
	}
	d.mu.Lock()
	delete(d.buffers, b)
	d.mu.Unlock()
	if d.driver == nil {
		_ = unix.Munmap(b.memory) // nothing is left to do about it
		b.memory = nil
		return
	}
	if leave, err := d.driver.enter(); err == nil {
		d.release(b)
		leave()
	}
}

// release gives a buffer's memory back, within the driver's context. What fails is lost until the
// process ends.
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
	address := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if len(memory) == 0 || address%pageBytes != 0 || len(memory)%pageBytes != 0 {
		return nil,
			fmt.Errorf(
				"buffer %q: %d bytes at %#x, expected whole pages of %d bytes: wrap the pages "+
					"around what is needed and bind it with an offset",
				label, len(memory), address, pageBytes)
	}
	b := &buffer{d: d, label: label, memory: memory, wrapped: true}
	d.keep(b)
	return b, nil
}

// copyWrapped brings a wrapped buffer to the GPU, within the driver's context, unless it is there.
func (d *Device) copyWrapped(b *buffer) (err error) {
	if b.copied {
		return nil
	}
	if b.gpu, err = get[uint64](d.driver, "cuMemAlloc", d.driver.memAlloc,
		uintptr(len(b.memory))); err != nil {
		return fmt.Errorf("copying %q, %d bytes, to the GPU: %w", b.label, len(b.memory), err)
	}
	b.copied = true
	return d.driver.call("cuMemcpyHtoD", d.driver.copyToDeviceNow, uintptr(b.gpu),
		uintptr(unsafe.Pointer(unsafe.SliceData(b.memory))), uintptr(len(b.memory)))
}

func (d *Device) keep(b *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buffers[b] = struct{}{}
}

package probe

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"headroom/metal"
)

// wrapped makes the GPU read and write memory that it did not allocate. The range that it reads
// crosses a page boundary.
func (p *Probe) wrapped() error {
	page := p.d.Facts().PageBytes
	if page < 1024 || page&(page-1) != 0 {
		return fmt.Errorf("got pages of %d bytes, expected a power of two of at least 1,024", page)
	}
	// Never unmapped: the device may use it until it is closed.
	pages, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	b, err := p.d.WrapBuffer("wrapped", pages)
	if err != nil {
		return err
	}
	values := unsafe.Slice((*uint32)(unsafe.Pointer(&pages[page-64])), 32)
	for i := range values {
		values[i] = uint32(100 + i)
	}
	pipeline, err := p.library.Pipeline("step", constants...)
	if err != nil {
		return err
	}
	params, out := p.put(32), p.put(make([]uint32, 32)...)
	if p.err != nil {
		return nil
	}
	p.c.SetPipeline(pipeline)
	p.c.SetBuffers(0, metal.Binding{Buffer: params},
		metal.Binding{Buffer: b, Offset: page - 64, Bytes: 128}, metal.Binding{Buffer: out})
	p.c.Dispatch("step", one, line(32))
	p.c.Barrier()
	p.c.SetBuffers(0, metal.Binding{Buffer: params}, metal.Binding{Buffer: out},
		metal.Binding{Buffer: b, Offset: page, Bytes: 128})
	p.c.Dispatch("step", one, line(32))
	if !p.finish(p.c) {
		return nil
	}
	start := make([]uint32, 32)
	for i := range start {
		start[i] = uint32(100 + i)
	}
	return expect("wrapped memory after two steps",
		unsafe.Slice((*uint32)(unsafe.Pointer(&pages[page])), 32), chain(start, 2))
}

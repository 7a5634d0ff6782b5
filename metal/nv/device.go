//go:build nv && linux

package nv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"headroom/metal"
	"headroom/metal/msl"
)

// Device implements metal.Device and metal.Allocator.
type Device struct {
	o        Options
	compiler *compiler
	driver   *driver // nil with Options.CompileOnly
	facts    metal.Facts
	streams  []uintptr // the first one orders the commits

	mu      sync.Mutex
	buffers map[*buffer]struct{}
	spare   []uintptr // events to reuse
	seconds float64
	traced  map[string]traced
	closed  bool
}

var (
	_ metal.Device    = (*Device)(nil)
	_ metal.Allocator = (*Device)(nil)
)

// Open opens the machine's first GPU. The error wraps ErrUnavailable if no GPU can run kernels.
func Open(o Options) (*Device, error) {
	if o.Streams <= 0 {
		o.Streams = 4
	}
	if o.Trace != nil {
		o.Streams = 1
	}
	var v *driver
	var err error
	if !o.CompileOnly {
		if v, err = loadDriver(); err != nil {
			return nil, err
		}
	}
	c, err := newCompiler(o.CacheDir)
	if err != nil {
		return nil, err
	}
	d := &Device{o: o, compiler: c, buffers: map[*buffer]struct{}{}, traced: map[string]traced{}}
	d.facts = metal.Facts{
		Name: "no GPU: kernels are only compiled", Families: []string{"Apple7", "Metal3"},
		MaxBufferLength:            maxBufferLength,
		MaxThreadgroupMemoryLength: msl.MaxThreadgroupMemoryBytes, PageBytes: pageBytes,
		System: "Linux, CUDA",
	}
	if o.CompileOnly {
		if c.clang == "" {
			return nil, fmt.Errorf("%w: clang is missing (build/setup sim installs it)",
				ErrUnavailable)
		}
		return d, nil
	}
	name, _, bytes, err := v.facts()
	if err != nil {
		return nil, err
	}
	d.facts.Name, d.facts.RecommendedMaxWorkingSetSize = name, bytes
	if v.ctx, err = get[uintptr](v, "cuDevicePrimaryCtxRetain", v.primaryRetain, 0); err != nil {
		return nil, err
	}
	d.driver = v
	leave, err := v.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	for range o.Streams {
		s, err := get[uintptr](v, "cuStreamCreate", v.streamCreate, streamNonBlocking)
		if err != nil {
			return nil, err
		}
		d.streams = append(d.streams, s)
	}
	return d, nil
}

// Facts implements metal.Device.
func (d *Device) Facts() metal.Facts { return d.facts }

// MakeResident implements metal.Device. It moves the buffers' memory to the GPU. Managed memory
// that the host has filled, such as random weights, would move page by page when kernels first read
// it, with over 100 µs for each page.
func (d *Device) MakeResident(label string, buffers []metal.Buffer) error {
	if d.driver == nil {
		return nil
	}
	leave, err := d.driver.enter()
	if err != nil {
		return err
	}
	defer leave()
	for _, m := range buffers {
		b, ok := m.(*buffer)
		switch {
		case !ok || b.memory == nil || b.mirrored:
		case b.wrapped:
			err = d.uploadWrapped(b)
		default:
			err = d.driver.call("cuMemPrefetchAsync", d.driver.prefetch, uintptr(b.gpu),
				uintptr(len(b.memory)), 0, d.streams[0])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
	}
	return d.driver.call("cuCtxSynchronize", d.driver.ctxSynchronize)
}

// Seconds returns the total GPU time of the commits that Wait has returned for.
func (d *Device) Seconds() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seconds
}

// traced has the times of a kernel with one grid since the device was opened. The grid tells apart
// passes with different numbers of rows.
type traced struct {
	kernel  string
	seconds []float64
	total   float64
}

// writeTrace writes the time of each kernel, the longest total first. A median leaves out the calls
// for which pages of managed memory had to come from the host.
func (d *Device) writeTrace() {
	all := slices.SortedFunc(maps.Values(d.traced),
		func(a, b traced) int { return cmp.Compare(b.total, a.total) })
	for _, t := range all {
		slices.Sort(t.seconds)
		fmt.Fprintf(d.o.Trace, "%-52s %7d calls %9.3f ms %8.2f us median\n", t.kernel,
			len(t.seconds), 1e3*t.total, 1e6*t.seconds[len(t.seconds)/2])
	}
}

// Close implements metal.Device. Streams and events stay in the driver until the process ends.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	if d.driver == nil {
		for b := range d.buffers {
			if !b.wrapped {
				_ = unix.Munmap(b.memory) // an error leaves it mapped until the process ends
			}
			b.memory = nil
		}
		return
	}
	leave, err := d.driver.enter()
	if err != nil {
		return
	}
	defer leave()
	_ = d.driver.call("cuCtxSynchronize", d.driver.ctxSynchronize)
	for b := range d.buffers {
		d.release(b)
	}
	if d.o.Trace != nil {
		d.writeTrace()
	}
	_ = d.driver.call("cuDevicePrimaryCtxRelease", d.driver.primaryRelease, 0)
}

//go:build nv && linux

package nv

// Running a recording: copies to the GPU, launches, copies back.

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"headroom/metal/base"
)

// Commit implements metal.Commands.
func (c *commands) Commit(done func(error)) {
	if !c.Open("Commit") {
		return
	}
	c.Committed = true
	if c.result = c.TakeMistake(); c.result == nil && c.d.driver != nil {
		c.result = c.submit()
	}
	if done == nil {
		return
	}
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		done(c.waitForGPU())
	}()
}

// waitForGPU waits until the committed work has run, or returns the error of submitting it.
func (c *commands) waitForGPU() error {
	if c.result != nil || c.end == 0 {
		return c.result
	}
	v := c.d.driver
	leave, err := v.enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := v.call("cuEventSynchronize", v.eventSynchronize, c.end); err != nil {
		first, last := c.recorded[0].Label, c.recorded[len(c.recorded)-1].Label
		return fmt.Errorf("%w, in one of %d dispatches from %q to %q or earlier: the device is "+
			"unusable now, open it again", err, len(c.recorded), first, last)
	}
	return nil
}

// Wait implements metal.Commands.
func (c *commands) Wait() error {
	if !c.Committed {
		return c.TakeMistake()
	}
	if c.done != nil {
		<-c.done
	}
	err := c.waitForGPU()
	if c.end != 0 {
		c.finish(err == nil)
	}
	err = errors.Join(err, c.TakeMistake())
	c.Reset()
	c.recorded, c.marks, c.words = c.recorded[:0], c.marks[:0], c.words[:0]
	c.done, c.result, c.start, c.end = nil, nil, 0, 0
	return err
}

// finish clears the marks on the mirrored buffers that the work wrote, reads the GPU's clock if the
// work ran, and recycles its events.
func (c *commands) finish(ran bool) {
	d := c.d
	leave, err := d.driver.enter()
	if err != nil {
		return
	}
	defer leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	c.eachWritten(func(b bound) {
		if i := slices.Index(b.buffer.writing, b.extent); i >= 0 {
			b.buffer.writing = slices.Delete(b.buffer.writing, i, i+1)
		}
	})
	if ran {
		c.seconds = d.elapsed(c.start, c.end)
		d.seconds += c.seconds
		for i := 0; i+1 < len(c.marks); i += 2 {
			x := &c.recorded[i/2]
			name := fmt.Sprintf("%s/%s %s", x.Label, x.Pipeline.Kernel().Name, x.Groups)
			t, seconds := d.traced[name], d.elapsed(c.marks[i], c.marks[i+1])
			d.traced[name] = traced{kernel: name, seconds: append(t.seconds, seconds),
				total: t.total + seconds}
		}
	}
	d.spare = append(append(d.spare, c.start, c.end), c.marks...)
}

// elapsed returns the seconds between two events that have happened.
func (d *Device) elapsed(from, to uintptr) float64 {
	ms, err := get[float32](d.driver, "cuEventElapsedTime", d.driver.eventElapsed, from, to)
	if err != nil {
		return 0
	}
	return float64(ms) / 1e3
}

// CopyBytesPerSecond measures the rate at which the GPU copies memory within the GPU, counting
// bytes read and bytes written. It returns the best of several copies of 1 GiB. Benchmarks compare
// kernels with this rate.
func (d *Device) CopyBytesPerSecond() (rate float64, err error) {
	if d.driver == nil {
		return 0, fmt.Errorf("%w: Options.CompileOnly is set", ErrUnavailable)
	}
	v, stream := d.driver, d.streams[0]
	leave, err := v.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	const bytes = 1 << 30
	memory, err := get[uint64](v, "cuMemAlloc", v.memAlloc, 2*bytes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, v.call("cuMemFree", v.memFree, uintptr(memory))) }()
	for range 8 {
		start, err1 := d.mark(stream)
		err2 := v.call("cuMemcpyDtoDAsync", v.copyWithin, uintptr(memory), uintptr(memory)+bytes,
			bytes, stream)
		end, err3 := d.mark(stream)
		if err = errors.Join(err1, err2, err3,
			v.call("cuCtxSynchronize", v.ctxSynchronize)); err != nil {
			return 0, err
		}
		if s := d.elapsed(start, end); s > 0 {
			rate = max(rate, 2*bytes/s)
		}
	}
	return rate, nil
}

// event returns a recycled or a new event. The driver's context must be current.
func (d *Device) event() (uintptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.spare); n > 0 {
		e := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return e, nil
	}
	return get[uintptr](d.driver, "cuEventCreate", d.driver.eventCreate, 0)
}

// mark records a new event on a stream.
func (d *Device) mark(stream uintptr) (uintptr, error) {
	e, err := d.event()
	if err == nil {
		err = d.driver.call("cuEventRecord", d.driver.eventRecord, e, stream)
	}
	return e, err
}

// submit gives the recording to the driver: copies to the GPU, the dispatches of each interval on
// several streams, copies back.
func (c *commands) submit() error {
	d, main := c.d, c.d.streams[0]
	leave, err := d.driver.enter()
	if err != nil {
		return err
	}
	defer leave()
	if c.start, err = d.mark(main); err != nil {
		return err
	}
	if err := c.upload(); err != nil {
		return err
	}
	if err := c.launchAll(); err != nil {
		return err
	}
	if err := c.download(); err != nil {
		return err
	}
	c.end, err = d.mark(main)
	return err
}

// launchAll launches all dispatches, as a graph if it can.
func (c *commands) launchAll() error {
	if c.d.o.Trace == nil {
		done, err := c.graphs.launch(c.d, c.recorded)
		if done || err != nil {
			return err
		}
	}
	for interval := range base.Intervals(c.recorded) {
		if err := c.launchInterval(interval); err != nil {
			return err
		}
	}
	return nil
}

// launchInterval launches dispatches that no barrier separates, round-robin on the streams. Then
// the first stream waits for the others.
func (c *commands) launchInterval(interval []dispatch) error {
	d, v := c.d, c.d.driver
	streams := d.streams[:min(len(d.streams), len(interval))]
	if len(streams) > 1 {
		if err := d.waitForStreams(streams[1:], streams[:1]); err != nil {
			return err
		}
	}
	for i := range interval {
		if err := c.markTrace(); err != nil {
			return err
		}
		if err := v.launch(&interval[i], streams[i%len(streams)]); err != nil {
			return fmt.Errorf("dispatch %q, kernel %s: %w", interval[i].Label,
				interval[i].Pipeline.Kernel().Name, err)
		}
		if err := c.markTrace(); err != nil {
			return err
		}
	}
	if len(streams) > 1 {
		return d.waitForStreams(streams[:1], streams[1:])
	}
	return nil
}

// markTrace records an event for Options.Trace.
func (c *commands) markTrace() error {
	if c.d.o.Trace == nil {
		return nil
	}
	e, err := c.d.mark(c.d.streams[0])
	if err == nil {
		c.marks = append(c.marks, e)
	}
	return err
}

// waitForStreams makes later work on streams wait for earlier work on others.
func (d *Device) waitForStreams(streams, others []uintptr) error {
	for _, other := range others {
		e, err := d.mark(other)
		if err != nil {
			return err
		}
		for _, s := range streams {
			if err := d.driver.call("cuStreamWaitEvent", d.driver.streamWaitEvent, s, e,
				0); err != nil {
				return err
			}
		}
		d.mu.Lock()
		// cuStreamWaitEvent captures the event's state, so e may be recorded again.
		d.spare = append(d.spare, e)
		d.mu.Unlock()
	}
	return nil
}

// launch starts a dispatch on a stream.
func (v *driver) launch(x *dispatch, stream uintptr) error {
	_ = x.params()
	err := v.call("cuLaunchKernel", v.launchKernel, x.Pipeline.f, uintptr(x.Groups.X),
		uintptr(x.Groups.Y), uintptr(x.Groups.Z),
		uintptr(x.Threads.X), uintptr(x.Threads.Y), uintptr(x.Threads.Z),
		uintptr(x.threadgroupSize),
		stream, 0, uintptr(unsafe.Pointer(&x.extra)))
	runtime.KeepAlive(x)
	return err
}

// upload copies the wrapped and mirrored buffers of the dispatches to the GPU. It copies a wrapped
// buffer once, and a mirrored buffer from the first byte used to the last. It leaves out bytes that
// the GPU is writing.
func (c *commands) upload() error {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	used := map[*buffer]extent{}
	for i := range c.recorded {
		x := &c.recorded[i]
		for _, b := range x.bound {
			switch u, seen := used[b.buffer]; {
			case b.buffer.wrapped:
				if err := d.uploadWrapped(b.buffer); err != nil {
					return err
				}
				x.arguments[b.argument] = b.buffer.gpu + uint64(b.from)
			case len(b.buffer.writing) > 0:
				if err := d.uploadMirrored(b.buffer, b.extent); err != nil {
					return err
				}
			case seen:
				used[b.buffer] = extent{min(u.from, b.from), max(u.to, b.to)}
			default:
				used[b.buffer] = b.extent
			}
		}
	}
	for b, u := range used {
		if err := d.uploadMirrored(b, u); err != nil {
			return err
		}
	}
	c.eachWritten(func(b bound) { b.buffer.writing = append(b.buffer.writing, b.extent) })
	return nil
}

// uploadMirrored copies bytes of a mirrored buffer to the GPU, unless the GPU is writing some of
// them.
func (d *Device) uploadMirrored(b *buffer, e extent) error {
	for _, w := range b.writing {
		if e.from < w.to && w.from < e.to {
			return nil
		}
	}
	return d.driver.call("cuMemcpyHtoDAsync", d.driver.copyToDevice, uintptr(b.gpu)+uintptr(e.from),
		uintptr(unsafe.Pointer(&b.memory[e.from])),
		uintptr(e.to-e.from), d.streams[0])
}

// eachWritten calls f for each part of a mirrored buffer that a dispatch writes.
func (c *commands) eachWritten(f func(b bound)) {
	for i := range c.recorded {
		for _, b := range c.recorded[i].bound {
			if b.write && b.buffer.mirrored {
				f(b)
			}
		}
	}
}

// download copies to the host the parts of mirrored buffers that the dispatches wrote.
func (c *commands) download() error {
	var errs []error
	c.eachWritten(func(b bound) {
		errs = append(errs, c.d.driver.call("cuMemcpyDtoHAsync", c.d.driver.copyToHost,
			uintptr(unsafe.Pointer(&b.buffer.memory[b.from])),
			uintptr(b.buffer.gpu)+uintptr(b.from), uintptr(b.to-b.from), c.d.streams[0]))
	})
	return errors.Join(errs...)
}

//go:build linux

package nv

// Running what was recorded.

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"
)

// Commit implements metal.Commands.
func (c *commands) Commit(done func(error)) {
	if !c.Open("Commit") {
		return
	}
	c.Committed = true
	if c.result = c.TakeMistake(); c.result == nil && c.d.driver != nil {
		c.result = c.send()
	}
	if done == nil {
		return
	}
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		done(c.finished())
	}()
}

// finished waits for the GPU.
func (c *commands) finished() error {
	if c.result != nil || c.ended == 0 {
		return c.result
	}
	v := c.d.driver
	leave, err := v.enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := v.call("cuEventSynchronize", v.eventSynchronize, c.ended); err != nil {
		return fmt.Errorf(
			"%w, in one of %d dispatches from %q to %q or before them; the device computes no more",
			err, len(c.recorded),
			c.recorded[0].label, c.recorded[len(c.recorded)-1].label)
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
	err := c.finished()
	if c.ended != 0 {
		c.settle(err == nil)
	}
	err = errors.Join(err, c.TakeMistake())
	c.Next()
	c.recorded, c.marks, c.done, c.result, c.began, c.ended = c.recorded[:0], c.marks[:0], nil, nil,
		0, 0
	return err
}

// settle reads the clocks and gives events back.
func (c *commands) settle(ran bool) {
	d := c.d
	leave, err := d.driver.enter()
	if err != nil {
		return
	}
	defer leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	c.written(func(b bound) {
		if i := slices.Index(b.buffer.writing, b.extent); i >= 0 {
			b.buffer.writing = slices.Delete(b.buffer.writing, i, i+1)
		}
	})
	if ran {
		c.seconds = d.between(c.began, c.ended)
		d.seconds += c.seconds
		for i := 0; i+1 < len(c.marks); i += 2 {
			name := c.recorded[i/2].label + "/" + c.recorded[i/2].pipeline.kernel.Name
			t := d.traced[name]
			d.traced[name] = traced{kernel: name, calls: t.calls + 1,
				seconds: t.seconds + d.between(c.marks[i], c.marks[i+1])}
		}
	}
	d.spare = append(append(d.spare, c.began, c.ended), c.marks...)
}

// between is the seconds from one event to another, both past.
func (d *Device) between(from, to uintptr) float64 {
	ms, err := get[float32](d.driver, "cuEventElapsedTime", d.driver.eventElapsed, from, to)
	if err != nil {
		return 0
	}
	return float64(ms) / 1e3
}

// CopyBytesPerSecond is the rate at which the GPU copies its memory, bytes read and bytes written,
// the best of several times 1 GiB: what kernels can be held against.
func (d *Device) CopyBytesPerSecond() (rate float64, err error) {
	if d.driver == nil {
		return 0, fmt.Errorf("%w: only a compiler", ErrUnavailable)
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
		began, err1 := d.mark(stream)
		err2 := v.call("cuMemcpyDtoDAsync", v.copyWithin, uintptr(memory), uintptr(memory)+bytes,
			bytes, stream)
		ended, err3 := d.mark(stream)
		if err = errors.Join(err1, err2, err3,
			v.call("cuCtxSynchronize", v.ctxSynchronize)); err != nil {
			return 0, err
		}
		if s := d.between(began, ended); s > 0 {
			rate = max(rate, 2*bytes/s)
		}
	}
	return rate, nil
}

// event is a spare event, or a new one, within the driver's context.
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

// send gives everything to the driver: what must be brought, the dispatches of each interval on
// several streams, what goes back.
func (c *commands) send() error {
	d, main := c.d, c.d.streams[0]
	leave, err := d.driver.enter()
	if err != nil {
		return err
	}
	defer leave()
	if c.began, err = d.mark(main); err != nil {
		return err
	}
	if err := c.bring(); err != nil {
		return err
	}
	for from := 0; from < len(c.recorded); {
		to := from
		for to < len(c.recorded) && c.recorded[to].interval == c.recorded[from].interval {
			to++
		}
		if err := c.interleave(c.recorded[from:to]); err != nil {
			return err
		}
		from = to
	}
	if err := c.takeBack(); err != nil {
		return err
	}
	c.ended, err = d.mark(main)
	return err
}

// interleave launches dispatches that no barrier separates, in turn on the streams; the first
// stream waits for the others after it.
func (c *commands) interleave(interval []dispatch) error {
	d, v := c.d, c.d.driver
	streams := d.streams[:min(len(d.streams), len(interval))]
	if len(streams) > 1 {
		if err := d.follow(streams[1:], streams[:1]); err != nil {
			return err
		}
	}
	for i := range interval {
		if d.o.Trace != nil {
			e, err := d.mark(d.streams[0])
			if err != nil {
				return err
			}
			c.marks = append(c.marks, e)
		}
		if err := v.launch(&interval[i], streams[i%len(streams)]); err != nil {
			return fmt.Errorf("dispatch %q, kernel %s: %w", interval[i].label,
				interval[i].pipeline.kernel.Name, err)
		}
		if d.o.Trace != nil {
			e, err := d.mark(d.streams[0])
			if err != nil {
				return err
			}
			c.marks = append(c.marks, e)
		}
	}
	if len(streams) > 1 {
		return d.follow(streams[:1], streams[1:])
	}
	return nil
}

// follow makes later work on streams wait for earlier work on others.
func (d *Device) follow(streams, others []uintptr) error {
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
		d.spare = append(d.spare, e) // who waits has taken it in: it may be recorded anew
		d.mu.Unlock()
	}
	return nil
}

// launch starts a dispatch on a stream.
func (v *driver) launch(x *dispatch, stream uintptr) error {
	x.argumentBytes = uintptr(8 * len(x.arguments))
	x.extra = [...]uintptr{launchBufferPointer,
		uintptr(unsafe.Pointer(unsafe.SliceData(x.arguments))),
		launchBufferSize, uintptr(unsafe.Pointer(&x.argumentBytes)), 0}
	err := v.call("cuLaunchKernel", v.launchKernel, x.pipeline.f, uintptr(x.groups.X),
		uintptr(x.groups.Y), uintptr(x.groups.Z),
		uintptr(x.threads.X), uintptr(x.threads.Y), uintptr(x.threads.Z), uintptr(x.memoryBytes),
		stream, 0, uintptr(unsafe.Pointer(&x.extra)))
	runtime.KeepAlive(x)
	return err
}

// bring copies to the GPU what is used of buffers that the GPU does not share: weights once, and of
// a mirrored buffer all from the first byte used to the last, but not what the GPU is writing.
func (c *commands) bring() error {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	used := map[*buffer]extent{}
	for i := range c.recorded {
		x := &c.recorded[i]
		for _, b := range x.bound {
			switch u, seen := used[b.buffer]; {
			case b.buffer.wrapped:
				if err := d.copyWrapped(b.buffer); err != nil {
					return err
				}
				x.arguments[b.argument] = b.buffer.gpu + uint64(b.from)
			case len(b.buffer.writing) > 0:
				if err := d.upload(b.buffer, b.extent); err != nil {
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
		if err := d.upload(b, u); err != nil {
			return err
		}
	}
	c.written(func(b bound) { b.buffer.writing = append(b.buffer.writing, b.extent) })
	return nil
}

// upload copies bytes of a mirrored buffer, unless the GPU is writing some of them.
func (d *Device) upload(b *buffer, e extent) error {
	for _, w := range b.writing {
		if e.from < w.to && w.from < e.to {
			return nil
		}
	}
	return d.driver.call("cuMemcpyHtoDAsync", d.driver.copyToDevice, uintptr(b.gpu)+uintptr(e.from),
		uintptr(unsafe.Pointer(&b.memory[e.from])),
		uintptr(e.to-e.from), d.streams[0])
}

// written calls f for each part of a mirrored buffer that a dispatch writes.
func (c *commands) written(f func(b bound)) {
	for i := range c.recorded {
		for _, b := range c.recorded[i].bound {
			if b.write && b.buffer.mirrored {
				f(b)
			}
		}
	}
}

// takeBack copies to the host what has been written of mirrored buffers.
func (c *commands) takeBack() error {
	var errs []error
	c.written(func(b bound) {
		errs = append(errs, c.d.driver.call("cuMemcpyDtoHAsync", c.d.driver.copyToHost,
			uintptr(unsafe.Pointer(&b.buffer.memory[b.from])),
			uintptr(b.buffer.gpu)+uintptr(b.from), uintptr(b.to-b.from), c.d.streams[0]))
	})
	return errors.Join(errs...)
}

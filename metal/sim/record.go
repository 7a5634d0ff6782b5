//go:build linux && amd64

package sim

// Recording, with every check that the host's side allows before anything runs. A Mac with Metal's validation layer switched on
// stops at many of these; without it they are silent.

import (
	"errors"
	"fmt"

	"headroom/metal"
	"headroom/metal/msl"
)

// NewCommands implements metal.Device.
func (d *device) NewCommands() metal.Commands { return &commands{d: d, ran: make(chan struct{}, 1)} }

// dispatch is one recorded dispatch.
type dispatch struct {
	label            string
	pipeline         *pipeline
	bindings         [msl.MaxBuffers]metal.Binding
	threadgroupBytes [msl.MaxBuffers]int
	groups, threads  metal.Size
	interval         int // barriers before it
}

type commands struct {
	d *device

	// what the next dispatch will see
	pipeline         *pipeline
	bindings         [msl.MaxBuffers]metal.Binding
	threadgroupBytes [msl.MaxBuffers]int
	bound            uint32 // bit i: buffer i has been set
	fresh            uint32 // bit i: since the last dispatch
	freshThreadgroup uint32

	recorded []dispatch
	interval int
	err      error // the first mistake

	committed bool
	late      error // recorded between Commit and Wait
	done      func(error)
	ran       chan struct{}
	result    error // of the last run, written before ran
	seconds   float64
}

// fail keeps the first mistake for Wait.
func (c *commands) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// SetPipeline implements metal.Commands.
func (c *commands) SetPipeline(p metal.Pipeline) {
	own, ok := p.(*pipeline)
	if !ok || own == nil {
		c.fail("SetPipeline: got %T, expected a pipeline of this device", p)
		return
	}
	c.pipeline = own
}

// SetBuffers implements metal.Commands.
func (c *commands) SetBuffers(first int, bindings ...metal.Binding) {
	if first < 0 || first+len(bindings) > msl.MaxBuffers {
		c.fail("SetBuffers: indices [%d, %d), expected them within [0, %d)", first, first+len(bindings), msl.MaxBuffers)
		return
	}
	for i, b := range bindings {
		index := first + i
		if err := c.checkRange(index, b); err != nil {
			c.fail("SetBuffers: buffer %d: %w", index, err)
			return
		}
		c.bindings[index] = b
		c.bound |= 1 << index
		c.fresh |= 1 << index
	}
}

func (c *commands) checkRange(index int, b metal.Binding) error {
	if b.Buffer == nil {
		return nil
	}
	own, ok := b.Buffer.(*buffer)
	switch {
	case !ok || own.d != c.d:
		return errors.New("it belongs to another device")
	case own.memory == nil:
		return errors.New("its device has been closed")
	case b.Offset < 0 || b.Bytes < 0 || b.Offset+b.Bytes > len(own.memory):
		return fmt.Errorf("bytes [%d, %d) of %q, which has %d", b.Offset, b.Offset+b.Bytes, own.label, len(own.memory))
	}
	return nil
}

// SetThreadgroupMemory implements metal.Commands.
func (c *commands) SetThreadgroupMemory(index, bytes int) {
	if index < 0 || index >= msl.MaxBuffers || bytes <= 0 || bytes%16 != 0 {
		c.fail("SetThreadgroupMemory(%d, %d): expected an index from 0 to %d and a positive multiple of 16 bytes", index, bytes, msl.MaxBuffers-1)
		return
	}
	c.threadgroupBytes[index] = bytes
	c.freshThreadgroup |= 1 << index
}

// Dispatch implements metal.Commands.
func (c *commands) Dispatch(label string, groups, threads metal.Size) {
	if c.committed {
		c.late = fmt.Errorf("dispatch %q after Commit: call Wait first, or record into other Commands", label)
		return
	}
	if c.err != nil {
		return
	}
	d := dispatch{label: label, pipeline: c.pipeline, bindings: c.bindings, threadgroupBytes: c.threadgroupBytes,
		groups: groups, threads: threads, interval: c.interval}
	err := errors.Join(d.checkSize(), d.checkBuffers(c.bound, c.fresh), d.checkThreadgroupMemory(c.freshThreadgroup))
	if err == nil {
		err = d.checkConstantAliases()
	}
	if err != nil {
		c.err = fmt.Errorf("dispatch %q: %w", label, err)
		return
	}
	c.recorded = append(c.recorded, d)
	c.fresh, c.freshThreadgroup = 0, 0
}

func (d *dispatch) checkSize() error {
	if d.pipeline == nil {
		return errors.New("no pipeline: call SetPipeline first")
	}
	g, t := d.groups, d.threads
	most := d.pipeline.kernel.MaxThreads
	switch {
	case g.X < 1 || g.Y < 1 || g.Z < 1:
		return fmt.Errorf("%s threadgroups, expected at least one in each dimension: leave out a dispatch with nothing to do", g)
	case t.X < 1 || t.Y < 1 || t.Z < 1 || t.Count() > most:
		return fmt.Errorf("threadgroups of %s threads, expected 1 to %d for kernel %s", t, most, d.pipeline.kernel.Name)
	case int64(g.X)*int64(g.Y)*int64(g.Z) > 1<<31-1:
		return fmt.Errorf("%s threadgroups are more than 2^31", g)
	}
	return nil
}

// checkBuffers holds what is bound against what the kernel wants. fresh are the indices set since the last dispatch.
func (d *dispatch) checkBuffers(bound, fresh uint32) error {
	if d.pipeline == nil {
		return nil
	}
	k := d.pipeline.kernel
	var errs []error
	for index := range d.bindings {
		if fresh>>index&1 != 0 && k.Buffer(index) == nil {
			errs = append(errs, fmt.Errorf("buffer %d is set, but kernel %s has no [[buffer(%d)]]", index, k.Name, index))
		}
	}
	for i := range k.Arguments {
		a := &k.Arguments[i]
		if a.Kind != msl.BufferArgument || d.pipeline.absent(a) {
			continue
		}
		if bound>>a.Index&1 == 0 {
			errs = append(errs, fmt.Errorf("buffer %d, %s, is not set: call SetBuffers", a.Index, a))
			continue
		}
		if err := checkBinding(a, d.bindings[a.Index], d.pipeline.layout[i]); err != nil {
			errs = append(errs, fmt.Errorf("buffer %d, %s: %w", a.Index, a, err))
		}
	}
	return errors.Join(errs...)
}

func checkBinding(a *msl.Argument, b metal.Binding, l layout) error {
	if b.Buffer == nil {
		if a.Reference {
			return errors.New("nothing is bound to a reference, which Metal may read ahead of its use")
		}
		return nil
	}
	length := b.Bytes
	if length == 0 {
		length = len(b.Buffer.Bytes()) - b.Offset
	}
	align := max(int(l.align), 4) // Apple GPUs bind at multiples of 4 bytes
	switch {
	case b.Offset%align != 0:
		return fmt.Errorf("offset %d, expected a multiple of %d", b.Offset, align)
	case length < int(l.size):
		return fmt.Errorf("%d bytes from offset %d of %q are short of one element, %d bytes", length, b.Offset, b.Buffer.Label(), l.size)
	case a.Reference && b.Bytes != 0 && b.Bytes != int(l.size):
		return fmt.Errorf("the host passes %d bytes, the source's type has %d: make the structs the same", b.Bytes, l.size)
	}
	return nil
}

func (d *dispatch) checkThreadgroupMemory(fresh uint32) error {
	if d.pipeline == nil {
		return nil
	}
	k, total := d.pipeline.kernel, 0
	for index := range d.threadgroupBytes {
		if k.Threadgroup(index) != nil {
			total += d.threadgroupBytes[index]
		} else if fresh>>index&1 != 0 {
			return fmt.Errorf("threadgroup memory %d is set, but kernel %s has no [[threadgroup(%d)]]", index, k.Name, index)
		}
	}
	for i := range k.Arguments {
		a := &k.Arguments[i]
		if a.Kind != msl.ThreadgroupArgument || d.pipeline.absent(a) {
			continue
		}
		if n := d.threadgroupBytes[a.Index]; n < int(d.pipeline.layout[i].size) {
			return fmt.Errorf("threadgroup memory %d, %s: %d bytes, expected at least %d: call SetThreadgroupMemory", a.Index, a, n, d.pipeline.layout[i].size)
		}
	}
	if total > msl.MaxThreadgroupMemoryBytes {
		return fmt.Errorf("%d bytes of threadgroup memory, at most %d", total, msl.MaxThreadgroupMemoryBytes)
	}
	return nil
}

// checkConstantAliases refuses memory that is constant and written in one dispatch: Metal may cache constants. An output that
// shares memory with a device input is left to the checker, which knows which thread touches which byte.
func (d *dispatch) checkConstantAliases() error {
	k := d.pipeline.kernel
	for i := range k.Arguments {
		for j := range k.Arguments {
			in, out := &k.Arguments[i], &k.Arguments[j]
			if in.Kind != msl.BufferArgument || out.Kind != msl.BufferArgument || !in.Constant || out.ReadOnly {
				continue
			}
			a, b := span(d.bindings[in.Index]), span(d.bindings[out.Index])
			if a.from < b.to && b.from < a.to {
				return fmt.Errorf("buffer %d, %s, aliases buffer %d, %s: what is constant in a dispatch must not be written by it", out.Index, out, in.Index, in)
			}
		}
	}
	return nil
}

// addresses is a range of memory.
type addresses struct{ from, to uint64 }

// span is where a binding lies, the empty range for none.
func span(b metal.Binding) addresses {
	if b.Buffer == nil {
		return addresses{}
	}
	own := b.Buffer.(*buffer)
	s := addresses{from: own.address() + uint64(b.Offset), to: own.address() + uint64(len(own.memory))}
	if b.Bytes > 0 {
		s.to = s.from + uint64(b.Bytes)
	}
	return s
}

// Barrier implements metal.Commands.
func (c *commands) Barrier() { c.interval++ }

// Commit implements metal.Commands.
func (c *commands) Commit(done func(error)) {
	if c.committed {
		c.late = errors.New("Commit after Commit: call Wait first")
		return
	}
	c.committed, c.done = true, done
	c.d.queue <- c
}

// Wait implements metal.Commands.
func (c *commands) Wait() error {
	if !c.committed {
		return c.err
	}
	<-c.ran
	err := errors.Join(c.result, c.late)
	*c = commands{d: c.d, ran: c.ran, seconds: c.seconds, recorded: c.recorded[:0]}
	return err
}

// GPUTime implements metal.Commands.
func (c *commands) GPUTime() float64 { return c.seconds }

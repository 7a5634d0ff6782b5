//go:build linux

package nv

// Recording. The checks are few, as the simulated device makes them all.

import (
	"errors"
	"fmt"

	"headroom/metal"
	"headroom/metal/msl"
)

// NewCommands implements metal.Device.
func (d *Device) NewCommands() metal.Commands { return &commands{d: d} }

// dispatch is one recorded dispatch.
type dispatch struct {
	label           string
	pipeline        *pipeline
	arguments       []uint64 // of the entry, in order: addresses, and offsets of threadgroup arguments
	bound           []bound  // what addresses are in, for buffers that must be brought
	groups, threads metal.Size
	memoryBytes     int // of threadgroup arguments
	interval        int // barriers before it
	argumentBytes   uintptr
	extra           [5]uintptr // for the driver
}

// bound is a range of a mirrored or wrapped buffer that a dispatch uses.
type bound struct {
	extent
	argument int // in dispatch.arguments
	buffer   *buffer
	write    bool
}

type commands struct {
	d *Device

	// what the next dispatch will see
	pipeline         *pipeline
	bindings         [msl.MaxBuffers]metal.Binding
	threadgroupBytes [msl.MaxBuffers]int

	recorded []dispatch
	interval int
	err      error // the first mistake

	committed    bool
	done         chan struct{} // closed when the callback of Commit has been called, nil without one
	began, ended uintptr       // events
	marks        []uintptr     // events around each dispatch, with Options.Trace
	seconds      float64
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
		if err := c.checkRange(b); err != nil {
			c.fail("SetBuffers: buffer %d: %w", first+i, err)
			return
		}
		c.bindings[first+i] = b
	}
}

func (c *commands) checkRange(b metal.Binding) error {
	if b.Buffer == nil {
		return nil
	}
	own, ok := b.Buffer.(*buffer)
	switch {
	case !ok || own.d != c.d:
		return errors.New("it belongs to another device")
	case own.memory == nil:
		return errors.New("it has been freed")
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
}

// Dispatch implements metal.Commands.
func (c *commands) Dispatch(label string, groups, threads metal.Size) {
	if c.committed {
		c.fail("dispatch %q after Commit: call Wait first, or record into other Commands", label)
	}
	if c.err != nil {
		return
	}
	x := dispatch{label: label, pipeline: c.pipeline, groups: groups, threads: threads, interval: c.interval}
	if err := c.bind(&x); err != nil {
		c.fail("dispatch %q: %w", label, err)
		return
	}
	c.recorded = append(c.recorded, x)
}

// bind takes what has been set into x.
func (c *commands) bind(x *dispatch) error {
	p := x.pipeline
	if p == nil {
		return errors.New("no pipeline: call SetPipeline first")
	}
	g, t, most := x.groups, x.threads, p.facts.MaxTotalThreadsPerThreadgroup
	switch {
	case g.X < 1 || g.Y < 1 || g.Z < 1:
		return fmt.Errorf("%s threadgroups, expected at least one in each dimension: leave out a dispatch with nothing to do", g)
	case g.X > 1<<31-1 || g.Y > 65535 || g.Z > 65535:
		return fmt.Errorf("%s threadgroups, expected at most 65535 in the second and third dimension on this device", g)
	case t.X < 1 || t.Y < 1 || t.Z < 1 || t.Count() > most || t.Count()%msl.SimdgroupThreads != 0:
		return fmt.Errorf("threadgroups of %s threads, expected whole simdgroups and at most %d for kernel %s", t, most, p.kernel.Name)
	}
	for i := range p.kernel.Arguments {
		a := &p.kernel.Arguments[i]
		switch a.Kind {
		case msl.BufferArgument:
			address, err := x.address(a, c.bindings[a.Index])
			if err != nil {
				return fmt.Errorf("buffer %d, %s: %w", a.Index, a, err)
			}
			x.arguments = append(x.arguments, address)
		case msl.ThreadgroupArgument:
			n := c.threadgroupBytes[a.Index]
			if n == 0 && !p.absent(a) {
				return fmt.Errorf("threadgroup memory %d, %s, is not set: call SetThreadgroupMemory", a.Index, a)
			}
			x.arguments = append(x.arguments, uint64(x.memoryBytes))
			x.memoryBytes += n
		}
	}
	if total := x.memoryBytes + p.facts.StaticThreadgroupMemoryLength; total > msl.MaxThreadgroupMemoryBytes {
		return fmt.Errorf("%d bytes of threadgroup memory, at most %d", total, msl.MaxThreadgroupMemoryBytes)
	}
	return nil
}

// address is what argument a is bound to, an offset so far for a wrapped buffer. It notes what must be brought.
func (x *dispatch) address(a *msl.Argument, b metal.Binding) (uint64, error) {
	if b.Buffer == nil || x.pipeline.absent(a) {
		if a.Reference && !x.pipeline.absent(a) {
			return 0, errors.New("nothing is bound to a reference")
		}
		return 0, nil
	}
	own := b.Buffer.(*buffer)
	if own.wrapped && !a.ReadOnly {
		return 0, fmt.Errorf("%q is wrapped memory, which the GPU only reads on this device", own.label)
	}
	if own.wrapped || own.mirrored {
		to := b.Offset + b.Bytes
		if b.Bytes == 0 {
			to = len(own.memory)
		}
		x.bound = append(x.bound, bound{extent{b.Offset, to}, len(x.arguments), own, !a.ReadOnly})
	}
	return own.gpu + uint64(b.Offset), nil
}

// Barrier implements metal.Commands.
func (c *commands) Barrier() { c.interval++ }

// GPUTime implements metal.Commands.
func (c *commands) GPUTime() float64 { return c.seconds }

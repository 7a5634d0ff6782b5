//go:build linux

package nv

// Recording. Checks of a dispatch are few, as the simulated device makes them all.

import (
	"errors"
	"fmt"

	"headroom/metal"
	"headroom/metal/msl"
	"headroom/metal/record"
)

// dispatch is one recorded dispatch.
type dispatch struct {
	label    string
	pipeline *pipeline
	// of the entry, in order: addresses, and offsets of threadgroup arguments
	arguments       []uint64
	bound           []bound // what addresses are in, for buffers that must be brought
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
	record.Recorder[*pipeline]
	d *Device

	recorded []dispatch

	// closed when the callback of Commit has been called, nil without one
	done         chan struct{}
	result       error     // of what was committed, known before it ran or not
	began, ended uintptr   // events
	marks        []uintptr // events around each dispatch, with Options.Trace
	seconds      float64
}

// NewCommands implements metal.Device.
func (d *Device) NewCommands() metal.Commands {
	return &commands{Recorder: record.Recorder[*pipeline]{Refuses: d.refuses}, d: d}
}

// refuses says why a buffer cannot be used.
func (d *Device) refuses(b metal.Buffer) error {
	own, ok := b.(*buffer)
	switch {
	case !ok || own.d != d:
		return errors.New("it belongs to another device")
	case own.memory == nil:
		return errors.New("it has been freed")
	}
	return nil
}

// Dispatch implements metal.Commands.
func (c *commands) Dispatch(label string, groups, threads metal.Size) {
	if !c.Open(fmt.Sprintf("dispatch %q", label)) || c.Failed() {
		return
	}
	x := dispatch{label: label, pipeline: c.Pipeline, groups: groups, threads: threads,
		interval: c.Interval}
	err := c.CheckGrid(groups, threads)
	if err == nil {
		err = c.bind(&x)
	}
	if err != nil {
		c.Fail("dispatch %q: %w", label, err)
		return
	}
	c.recorded = append(c.recorded, x)
}

// bind takes what has been set into x.
func (c *commands) bind(x *dispatch) error {
	p, g, t := x.pipeline, x.groups, x.threads
	switch {
	case g.Y > 65535 || g.Z > 65535:
		return fmt.Errorf(
			"%s threadgroups, expected at most 65535 in the second and third dimension on this "+
				"device", g)
	case t.Count()%msl.SimdgroupThreads != 0:
		return fmt.Errorf("threadgroups of %s threads, expected whole simdgroups for kernel %s", t,
			p.kernel.Name)
	}
	for i := range p.kernel.Arguments {
		a := &p.kernel.Arguments[i]
		switch a.Kind {
		case msl.BufferArgument:
			address, err := x.address(a, c.Bindings[a.Index])
			if err != nil {
				return fmt.Errorf("buffer %d, %s: %w", a.Index, a, err)
			}
			x.arguments = append(x.arguments, address)
		case msl.ThreadgroupArgument:
			n := c.ThreadgroupBytes[a.Index]
			if n == 0 && !p.absent(a) {
				return fmt.Errorf(
					"threadgroup memory %d, %s, is not set: call SetThreadgroupMemory", a.Index, a)
			}
			x.arguments = append(x.arguments, uint64(x.memoryBytes))
			x.memoryBytes += n
		}
	}
	if total := x.memoryBytes +
		p.facts.StaticThreadgroupMemoryLength; total > msl.MaxThreadgroupMemoryBytes {
		return fmt.Errorf("%d bytes of threadgroup memory, at most %d", total,
			msl.MaxThreadgroupMemoryBytes)
	}
	return nil
}

// address is what argument a is bound to, an offset so far for a wrapped buffer. It notes what must
// be brought.
func (x *dispatch) address(a *msl.Argument, b metal.Binding) (uint64, error) {
	if b.Buffer == nil || x.pipeline.absent(a) {
		if a.Reference && !x.pipeline.absent(a) {
			return 0, errors.New("nothing is bound to a reference")
		}
		return 0, nil
	}
	own := b.Buffer.(*buffer)
	if own.wrapped && !a.ReadOnly {
		return 0, fmt.Errorf("%q is wrapped memory, which the GPU only reads on this device",
			own.label)
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

// GPUTime implements metal.Commands.
func (c *commands) GPUTime() float64 { return c.seconds }

//go:build nv && linux

package nv

// Recording. This file makes few checks of a dispatch: the simulated device makes all of them.

import (
	"errors"
	"fmt"

	"headroom/metal"
	"headroom/metal/base"
	"headroom/metal/msl"
)

// dispatch is one recorded dispatch.
type dispatch struct {
	base.Dispatch[*pipeline]
	// arguments of the entry, in order: addresses, and offsets of threadgroup arguments
	arguments       []uint64
	bound           []bound // mirrored and wrapped buffers among the arguments
	threadgroupSize int     // bytes of the threadgroup arguments
	argumentBytes   uintptr
	extra           [5]uintptr // for cuLaunchKernel
}

// bound is a range of a mirrored or wrapped buffer that a dispatch uses.
type bound struct {
	extent
	argument int // index into dispatch.arguments
	buffer   *buffer
	write    bool
}

type commands struct {
	base.Recorder[*pipeline]
	d *Device

	recorded []dispatch
	words    []uint64 // memory of the arguments of recorded
	graphs   graphs

	// done is closed after the callback of Commit has returned; nil without a callback.
	done       chan struct{}
	result     error     // of Commit
	start, end uintptr   // events
	marks      []uintptr // events around each dispatch, with Options.Trace
	seconds    float64
}

// NewCommands implements metal.Device.
func (d *Device) NewCommands() metal.Commands {
	return &commands{Recorder: base.Recorder[*pipeline]{CheckBuffer: d.checkBuffer}, d: d}
}

// checkBuffer returns an error if the device cannot use a buffer.
func (d *Device) checkBuffer(b metal.Buffer) error {
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
	c.Record(label, groups, threads, func(recorded base.Dispatch[*pipeline]) error {
		x := dispatch{Dispatch: recorded}
		n := len(recorded.Pipeline.Kernel().Arguments)
		if cap(c.words)-len(c.words) < n {
			c.words = make([]uint64, 0, max(n, 8192)) // the dispatches before keep theirs
		}
		used := len(c.words)
		x.arguments = c.words[used:used:cap(c.words)]
		err := c.bind(&x)
		c.words = c.words[:used+len(x.arguments)]
		c.recorded = append(c.recorded, x)
		return err
	})
}

// bind sets the arguments of x from the recorder's bindings.
func (c *commands) bind(x *dispatch) error {
	p, g, t := x.Pipeline, x.Groups, x.Threads
	switch {
	case g.Y > 65535 || g.Z > 65535:
		return fmt.Errorf("%s threadgroups, expected at most 65535 in the second and third "+
			"dimension on this device", g)
	case t.Count()%msl.SimdgroupThreads != 0:
		return fmt.Errorf("threadgroups of %s threads, expected whole simdgroups for kernel %s", t,
			p.Kernel().Name)
	}
	for i := range p.Kernel().Arguments {
		a := &p.Kernel().Arguments[i]
		switch a.Kind {
		case msl.BufferArgument:
			address, err := x.address(a, c.Bindings[a.Index])
			if err != nil {
				return fmt.Errorf("buffer %d, %s: %w", a.Index, a, err)
			}
			x.arguments = append(x.arguments, address)
		case msl.ThreadgroupArgument:
			n := c.ThreadgroupBytes[a.Index]
			if n == 0 && !p.Absent(a) {
				return fmt.Errorf(
					"threadgroup memory %d, %s, is not set: call SetThreadgroupMemory", a.Index, a)
			}
			x.arguments = append(x.arguments, uint64(x.threadgroupSize))
			x.threadgroupSize += n
		}
	}
	return base.CheckThreadgroupMemory(x.threadgroupSize + p.facts.StaticThreadgroupMemoryLength)
}

// address returns the GPU address that argument a is bound to. For a wrapped buffer it returns an
// offset, which upload replaces by the address. Buffers that need copying are added to x.bound.
func (x *dispatch) address(a *msl.Argument, b metal.Binding) (uint64, error) {
	if b.Buffer == nil || x.Pipeline.Absent(a) {
		if a.Reference && !x.Pipeline.Absent(a) {
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

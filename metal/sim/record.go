//go:build linux && amd64

package sim

// Recording finds the host's mistakes before anything runs: package base checks each call, and this
// file checks each dispatch. Metal's API validation reports many of these mistakes. Without it they
// go unnoticed on a Mac.

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
	bindings         [msl.MaxBuffers]metal.Binding
	threadgroupBytes [msl.MaxBuffers]int
}

type commands struct {
	base.Recorder[*pipeline]
	d *device

	recorded []dispatch

	mistake error // of the committed recording, which then does not run
	done    func(error)
	ran     chan struct{}
	result  error // of the last run, written before the send to ran
	seconds float64
}

// NewCommands implements metal.Device.
func (d *device) NewCommands() metal.Commands {
	return &commands{Recorder: base.Recorder[*pipeline]{CheckBuffer: d.checkBuffer}, d: d,
		ran: make(chan struct{}, 1)}
}

// checkBuffer returns an error if the device cannot use a buffer.
func (d *device) checkBuffer(b metal.Buffer) error {
	if own, ok := b.(*buffer); !ok || own.d != d {
		return errors.New("it belongs to another device")
	} else if own.memory == nil {
		return errors.New("it has been freed, or its device has been closed")
	}
	return nil
}

// Dispatch implements metal.Commands.
func (c *commands) Dispatch(label string, groups, threads metal.Size) {
	c.Record(label, groups, threads, func(recorded base.Dispatch[*pipeline]) error {
		d := dispatch{Dispatch: recorded, bindings: c.Bindings,
			threadgroupBytes: c.ThreadgroupBytes}
		err := errors.Join(d.checkBuffers(c.Bound, c.Fresh),
			d.checkThreadgroupMemory(c.FreshThreadgroup))
		if err == nil {
			err = d.checkConstantAliases()
		}
		c.recorded = append(c.recorded, d)
		return err
	})
}

// checkBuffers compares the bindings with the kernel's arguments. Bit i of bound is set if buffer i
// has ever been set, bit i of fresh if it has been set since the last dispatch.
func (d *dispatch) checkBuffers(bound, fresh uint32) error {
	k := d.Pipeline.Kernel()
	var errs []error
	for index := range d.bindings {
		if fresh>>index&1 != 0 && k.Buffer(index) == nil {
			errs = append(errs, fmt.Errorf("buffer %d is set, but kernel %s has no [[buffer(%d)]]",
				index, k.Name, index))
		}
	}
	for i := range k.Arguments {
		a := &k.Arguments[i]
		if a.Kind != msl.BufferArgument || d.Pipeline.Absent(a) {
			continue
		}
		if bound>>a.Index&1 == 0 {
			errs = append(errs, fmt.Errorf("buffer %d, %s, is not set: call SetBuffers", a.Index,
				a))
			continue
		}
		if err := checkBinding(a, d.bindings[a.Index], d.Pipeline.layout[i]); err != nil {
			errs = append(errs, fmt.Errorf("buffer %d, %s: %w", a.Index, a, err))
		}
	}
	return errors.Join(errs...)
}

func checkBinding(a *msl.Argument, b metal.Binding, l layout) error {
	if b.Buffer == nil {
		if a.Reference {
			return errors.New(
				"nothing is bound to a reference, which Metal may read ahead of its use")
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
		return fmt.Errorf("%d bytes from offset %d of %q are short of one element, %d bytes",
			length, b.Offset, b.Buffer.Label(), l.size)
	case a.Reference && b.Bytes != 0 && b.Bytes != int(l.size):
		return fmt.Errorf(
			"the host passes %d bytes, the source's type has %d: make the structs the same",
			b.Bytes, l.size)
	}
	return nil
}

// checkThreadgroupMemory compares the lengths that are set with the kernel's threadgroup arguments.
// Bit i of fresh is set if length i has been set since the last dispatch.
func (d *dispatch) checkThreadgroupMemory(fresh uint32) error {
	k, total := d.Pipeline.Kernel(), 0
	for index := range d.threadgroupBytes {
		if k.Threadgroup(index) != nil {
			total += d.threadgroupBytes[index]
		} else if fresh>>index&1 != 0 {
			return fmt.Errorf(
				"threadgroup memory %d is set, but kernel %s has no [[threadgroup(%d)]]", index,
				k.Name, index)
		}
	}
	for i := range k.Arguments {
		a := &k.Arguments[i]
		if a.Kind != msl.ThreadgroupArgument || d.Pipeline.Absent(a) {
			continue
		}
		if n := d.threadgroupBytes[a.Index]; n < int(d.Pipeline.layout[i].size) {
			return fmt.Errorf(
				"threadgroup memory %d, %s: %d bytes, expected at least %d: call "+
					"SetThreadgroupMemory", a.Index, a, n, d.Pipeline.layout[i].size)
		}
	}
	return base.CheckThreadgroupMemory(total)
}

// checkConstantAliases returns an error if a dispatch binds memory both in the constant address
// space and for writing: Metal may cache constants. An output that overlaps an input in the device
// address space is left to the checker, which knows the bytes that each thread accesses.
func (d *dispatch) checkConstantAliases() error {
	k := d.Pipeline.Kernel()
	for i := range k.Arguments {
		for j := range k.Arguments {
			in, out := &k.Arguments[i], &k.Arguments[j]
			if in.Kind != msl.BufferArgument || out.Kind != msl.BufferArgument || !in.Constant ||
				out.ReadOnly {
				continue
			}
			a, b := addressesOf(d.bindings[in.Index]), addressesOf(d.bindings[out.Index])
			if a.from < b.to && b.from < a.to {
				return fmt.Errorf(
					"buffer %d, %s, aliases buffer %d, %s: a dispatch must not write "+
						"its constants", out.Index, out, in.Index, in)
			}
		}
	}
	return nil
}

// addresses is a range of memory.
type addresses struct{ from, to uint64 }

// addressesOf returns the memory of a binding, the empty range if it has no buffer.
func addressesOf(b metal.Binding) addresses {
	if b.Buffer == nil {
		return addresses{}
	}
	own := b.Buffer.(*buffer)
	s := addresses{from: own.address() + uint64(b.Offset),
		to: own.address() + uint64(len(own.memory))}
	if b.Bytes > 0 {
		s.to = s.from + uint64(b.Bytes)
	}
	return s
}

// Commit implements metal.Commands.
func (c *commands) Commit(done func(error)) {
	if !c.Open("Commit") {
		return
	}
	c.Committed, c.mistake, c.done = true, c.TakeMistake(), done
	c.d.queue <- c
}

// Wait implements metal.Commands.
func (c *commands) Wait() error {
	if !c.Committed {
		return c.TakeMistake()
	}
	<-c.ran
	err := errors.Join(c.result, c.TakeMistake())
	c.Reset()
	c.recorded, c.mistake, c.done, c.result = c.recorded[:0], nil, nil, nil
	return err
}

// GPUTime implements metal.Commands.
func (c *commands) GPUTime() float64 { return c.seconds }

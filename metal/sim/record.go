//go:build linux && amd64

package sim

// Recording, with every check that the host's side allows before anything runs: those of package
// record, and of each dispatch its own. A Mac with Metal's validation layer switched on stops at
// many of these; without it they are silent.

import (
	"errors"
	"fmt"

	"headroom/metal"
	"headroom/metal/msl"
	"headroom/metal/record"
)

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
	record.Recorder[*pipeline]
	d *device

	recorded []dispatch

	refused error // the mistake with which it was committed
	done    func(error)
	ran     chan struct{}
	result  error // of the last run, written before ran
	seconds float64
}

// NewCommands implements metal.Device.
func (d *device) NewCommands() metal.Commands {
	return &commands{Recorder: record.Recorder[*pipeline]{Refuses: d.refuses}, d: d,
		ran: make(chan struct{}, 1)}
}

// refuses says why a buffer cannot be used.
func (d *device) refuses(b metal.Buffer) error {
	own, ok := b.(*buffer)
	switch {
	case !ok || own.d != d:
		return errors.New("it belongs to another device")
	case own.memory == nil:
		return errors.New("its device has been closed")
	}
	return nil
}

// Dispatch implements metal.Commands.
func (c *commands) Dispatch(label string, groups, threads metal.Size) {
	if !c.Open(fmt.Sprintf("dispatch %q", label)) || c.Failed() {
		return
	}
	d := dispatch{label: label, pipeline: c.Pipeline, bindings: c.Bindings,
		threadgroupBytes: c.ThreadgroupBytes,
		groups:           groups, threads: threads, interval: c.Interval}
	err := c.CheckGrid(groups, threads)
	if d.pipeline != nil {
		err = errors.Join(err, d.checkBuffers(c.Bound, c.Fresh),
			d.checkThreadgroupMemory(c.FreshThreadgroup))
	}
	if err == nil {
		err = d.checkConstantAliases()
	}
	if err != nil {
		c.Fail("dispatch %q: %w", label, err)
		return
	}
	c.recorded = append(c.recorded, d)
	c.Fresh, c.FreshThreadgroup = 0, 0
}

// checkBuffers holds what is bound against what the kernel wants. fresh are the indices set since
// the last dispatch.
func (d *dispatch) checkBuffers(bound, fresh uint32) error {
	k := d.pipeline.kernel
	var errs []error
	for index := range d.bindings {
		if fresh>>index&1 != 0 && k.Buffer(index) == nil {
			errs = append(errs, fmt.Errorf("buffer %d is set, but kernel %s has no [[buffer(%d)]]",
				index, k.Name, index))
		}
	}
	for i := range k.Arguments {
		a := &k.Arguments[i]
		if a.Kind != msl.BufferArgument || d.pipeline.absent(a) {
			continue
		}
		if bound>>a.Index&1 == 0 {
			errs = append(errs, fmt.Errorf("buffer %d, %s, is not set: call SetBuffers", a.Index,
				a))
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

func (d *dispatch) checkThreadgroupMemory(fresh uint32) error {
	k, total := d.pipeline.kernel, 0
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
		if a.Kind != msl.ThreadgroupArgument || d.pipeline.absent(a) {
			continue
		}
		if n := d.threadgroupBytes[a.Index]; n < int(d.pipeline.layout[i].size) {
			return fmt.Errorf(
				"threadgroup memory %d, %s: %d bytes, expected at least %d: call "+
					"SetThreadgroupMemory", a.Index, a, n, d.pipeline.layout[i].size)
		}
	}
	if total > msl.MaxThreadgroupMemoryBytes {
		return fmt.Errorf("%d bytes of threadgroup memory, at most %d", total,
			msl.MaxThreadgroupMemoryBytes)
	}
	return nil
}

// checkConstantAliases refuses memory that is constant and written in one dispatch: Metal may cache
// constants. An output that shares memory with a device input is left to the checker, which knows
// which thread touches which byte.
func (d *dispatch) checkConstantAliases() error {
	k := d.pipeline.kernel
	for i := range k.Arguments {
		for j := range k.Arguments {
			in, out := &k.Arguments[i], &k.Arguments[j]
			if in.Kind != msl.BufferArgument || out.Kind != msl.BufferArgument || !in.Constant ||
				out.ReadOnly {
				continue
			}
			a, b := span(d.bindings[in.Index]), span(d.bindings[out.Index])
			if a.from < b.to && b.from < a.to {
				return fmt.Errorf(
					"buffer %d, %s, aliases buffer %d, %s: what is constant in a dispatch must "+
						"not be written by it", out.Index, out, in.Index, in)
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
	c.Committed, c.refused, c.done = true, c.TakeMistake(), done
	c.d.queue <- c
}

// Wait implements metal.Commands.
func (c *commands) Wait() error {
	if !c.Committed {
		return c.TakeMistake()
	}
	<-c.ran
	err := errors.Join(c.result, c.TakeMistake())
	c.Next()
	c.recorded, c.refused, c.done, c.result = c.recorded[:0], nil, nil, nil
	return err
}

// GPUTime implements metal.Commands.
func (c *commands) GPUTime() float64 { return c.seconds }

// Package record is what our own devices share of metal.Commands: what has been set for the next
// dispatch, and the mistakes that show in the calls themselves. What a dispatch may be, and running
// it, is each device's own.
package record

import (
	"errors"
	"fmt"

	"headroom/metal"
	"headroom/metal/msl"
)

// Recorder is embedded by a device's Commands; P is the device's pipeline, a pointer. Mistakes are
// kept, the first of them.
type Recorder[P interface {
	comparable
	metal.Pipeline
}] struct {
	// Refuses says why the device cannot use a buffer, nil if it can.
	Refuses func(metal.Buffer) error

	// What the next dispatch will see.
	Pipeline         P
	Bindings         [msl.MaxBuffers]metal.Binding
	ThreadgroupBytes [msl.MaxBuffers]int
	Interval         int // barriers before it

	Bound uint32 // bit i: buffer i has been set
	// bit i: buffer, threadgroup memory i has been set since the last dispatch
	Fresh, FreshThreadgroup uint32

	Committed bool // nothing may be recorded until it is false again
	err       error
}

// Fail keeps the first mistake.
func (r *Recorder[P]) Fail(format string, arguments ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, arguments...)
	}
}

// Failed tells whether there is a mistake.
func (r *Recorder[P]) Failed() bool { return r.err != nil }

// TakeMistake returns the first mistake, and forgets it.
func (r *Recorder[P]) TakeMistake() error {
	err := r.err
	r.err = nil
	return err
}

// Open tells whether there may be recorded. After Commit it is a mistake.
func (r *Recorder[P]) Open(what string) bool {
	if r.Committed {
		r.Fail("%s after Commit: call Wait first, or record into other Commands", what)
	}
	return !r.Committed
}

// SetPipeline implements metal.Commands.
func (r *Recorder[P]) SetPipeline(p metal.Pipeline) {
	own, ok := p.(P)
	if none := *new(P); !ok || own == none {
		r.Fail("SetPipeline: got %T, expected a pipeline of this device", p)
		return
	}
	if r.Open("SetPipeline") {
		r.Pipeline = own
	}
}

// SetBuffers implements metal.Commands.
func (r *Recorder[P]) SetBuffers(first int, bindings ...metal.Binding) {
	if first < 0 || first+len(bindings) > msl.MaxBuffers {
		r.Fail("SetBuffers: indices [%d, %d), expected them within [0, %d)", first,
			first+len(bindings), msl.MaxBuffers)
		return
	}
	if !r.Open("SetBuffers") {
		return
	}
	for i, b := range bindings {
		if err := r.check(b); err != nil {
			r.Fail("SetBuffers: buffer %d: %w", first+i, err)
			return
		}
		r.Bindings[first+i] = b
		r.Bound |= 1 << (first + i)
		r.Fresh |= 1 << (first + i)
	}
}

func (r *Recorder[P]) check(b metal.Binding) error {
	if b.Buffer == nil {
		return nil
	}
	if err := r.Refuses(b.Buffer); err != nil {
		return err
	}
	if bytes := len(b.Buffer.Bytes()); b.Offset < 0 || b.Bytes < 0 || b.Offset+b.Bytes > bytes {
		return fmt.Errorf("bytes [%d, %d) of %q, which has %d", b.Offset, b.Offset+b.Bytes,
			b.Buffer.Label(), bytes)
	}
	return nil
}

// SetThreadgroupMemory implements metal.Commands.
func (r *Recorder[P]) SetThreadgroupMemory(index, bytes int) {
	if index < 0 || index >= msl.MaxBuffers || bytes <= 0 || bytes%16 != 0 {
		r.Fail(
			"SetThreadgroupMemory(%d, %d): expected an index from 0 to %d and a positive multiple "+
				"of 16 bytes", index, bytes, msl.MaxBuffers-1)
		return
	}
	if r.Open("SetThreadgroupMemory") {
		r.ThreadgroupBytes[index] = bytes
		r.FreshThreadgroup |= 1 << index
	}
}

// Barrier implements metal.Commands.
func (r *Recorder[P]) Barrier() {
	if r.Open("Barrier") {
		r.Interval++
	}
}

// CheckGrid refuses a dispatch of a size that no device has, or without a pipeline.
func (r *Recorder[P]) CheckGrid(groups, threads metal.Size) error {
	if none := *new(P); r.Pipeline == none {
		return errors.New("no pipeline: call SetPipeline first")
	}
	most := r.Pipeline.Facts().MaxTotalThreadsPerThreadgroup
	switch {
	case groups.X < 1 || groups.Y < 1 || groups.Z < 1:
		return fmt.Errorf(
			"%s threadgroups, expected at least one in each dimension: leave out a dispatch with "+
				"nothing to do", groups)
	case threads.X < 1 || threads.Y < 1 || threads.Z < 1 || threads.Count() > most:
		return fmt.Errorf("threadgroups of %s threads, expected 1 to %d for kernel %s", threads,
			most, r.Pipeline.Kernel().Name)
	case int64(groups.X)*int64(groups.Y)*int64(groups.Z) > 1<<31-1:
		return fmt.Errorf("%s threadgroups are more than 2^31", groups)
	}
	return nil
}

// Next begins another recording, keeping nothing but what the device says of buffers.
func (r *Recorder[P]) Next() { *r = Recorder[P]{Refuses: r.Refuses} }

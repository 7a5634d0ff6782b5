package base

import (
	"errors"
	"fmt"
	"iter"

	"headroom/metal"
	"headroom/metal/msl"
)

// Recorder implements the recording methods of metal.Commands except Dispatch, which a device
// implements with Record. The device's commands embed the Recorder. P is the device's pipeline, a
// pointer. The first mistake of the calls is kept for TakeMistake.
type Recorder[P interface {
	comparable
	metal.Pipeline
}] struct {
	// CheckBuffer returns an error if the device cannot use a buffer.
	CheckBuffer func(metal.Buffer) error

	// The state that the next dispatch uses.
	Pipeline         P
	Bindings         [msl.MaxBuffers]metal.Binding
	ThreadgroupBytes [msl.MaxBuffers]int

	// Bit i of Bound is set if buffer i has been set, bit i of Fresh and FreshThreadgroup if buffer
	// or threadgroup memory i has been set since the last dispatch.
	Bound, Fresh, FreshThreadgroup uint32

	Committed bool // after Commit, when recording is a mistake until Reset
	barriers  int  // recorded so far
	err       error
}

// Dispatch is the part of a recorded dispatch that all devices share.
type Dispatch[P any] struct {
	Label           string
	Pipeline        P
	Groups, Threads metal.Size
	barriers        int // recorded before it
}

// BarriersBefore returns the number of barriers recorded before the dispatch.
func (d *Dispatch[P]) BarriersBefore() int { return d.barriers }

// Intervals yields the longest runs of dispatches that no barrier separates, in order. D is a
// struct that embeds a Dispatch.
func Intervals[D any, PD interface {
	*D
	BarriersBefore() int
}](recorded []D) iter.Seq[[]D] {
	return func(yield func([]D) bool) {
		for from := 0; from < len(recorded); {
			to, barriers := from, PD(&recorded[from]).BarriersBefore()
			for to < len(recorded) && PD(&recorded[to]).BarriersBefore() == barriers {
				to++
			}
			if !yield(recorded[from:to]) {
				return
			}
			from = to
		}
	}
}

// Record checks a dispatch and passes it to add. After an earlier mistake it does nothing. An error
// of the check or of add is recorded as a mistake.
func (r *Recorder[P]) Record(label string, groups, threads metal.Size,
	add func(Dispatch[P]) error) {
	if r.Committed {
		r.Open(fmt.Sprintf("dispatch %q", label))
	}
	if r.Committed || r.err != nil {
		return
	}
	err := r.checkGrid(groups, threads)
	if none := *new(P); r.Pipeline != none {
		d := Dispatch[P]{Label: label, Pipeline: r.Pipeline, Groups: groups, Threads: threads,
			barriers: r.barriers}
		err = errors.Join(err, add(d))
	}
	if err != nil {
		r.fail("dispatch %q: %w", label, err)
		return
	}
	r.Fresh, r.FreshThreadgroup = 0, 0
}

// fail keeps the first mistake.
func (r *Recorder[P]) fail(format string, arguments ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, arguments...)
	}
}

// TakeMistake returns the first mistake and clears it. It returns nil if there is none.
func (r *Recorder[P]) TakeMistake() error {
	err := r.err
	r.err = nil
	return err
}

// Open reports whether the recording has not been committed. After Commit it records a mistake that
// begins with what, the name of the call.
func (r *Recorder[P]) Open(what string) bool {
	if r.Committed {
		r.fail("%s after Commit: call Wait first, or record into other Commands", what)
	}
	return !r.Committed
}

// SetPipeline implements metal.Commands.
func (r *Recorder[P]) SetPipeline(p metal.Pipeline) {
	own, ok := p.(P)
	if none := *new(P); !ok || own == none {
		r.fail("SetPipeline: got %T, expected a pipeline of this device", p)
		return
	}
	if r.Open("SetPipeline") {
		r.Pipeline = own
	}
}

// SetBuffers implements metal.Commands.
func (r *Recorder[P]) SetBuffers(first int, bindings ...metal.Binding) {
	if first < 0 || first+len(bindings) > msl.MaxBuffers {
		r.fail("SetBuffers: indices [%d, %d), expected them within [0, %d)", first,
			first+len(bindings), msl.MaxBuffers)
		return
	}
	if !r.Open("SetBuffers") {
		return
	}
	for i, b := range bindings {
		if err := r.checkBinding(b); err != nil {
			r.fail("SetBuffers: buffer %d: %w", first+i, err)
			return
		}
		r.Bindings[first+i] = b
		r.Bound |= 1 << (first + i)
		r.Fresh |= 1 << (first + i)
	}
}

func (r *Recorder[P]) checkBinding(b metal.Binding) error {
	if b.Buffer == nil {
		return nil
	}
	if err := r.CheckBuffer(b.Buffer); err != nil {
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
	if err := CheckThreadgroupArgument(index, bytes); err != nil {
		r.fail("%w", err)
		return
	}
	if r.Open("SetThreadgroupMemory") {
		r.ThreadgroupBytes[index] = bytes
		r.FreshThreadgroup |= 1 << index
	}
}

// CheckThreadgroupArgument returns an error unless SetThreadgroupMemory takes these arguments.
func CheckThreadgroupArgument(index, bytes int) error {
	if index < 0 || index >= msl.MaxBuffers || bytes <= 0 || bytes%16 != 0 {
		return fmt.Errorf("SetThreadgroupMemory(%d, %d): expected an index from 0 to %d and a "+
			"positive multiple of 16 bytes", index, bytes, msl.MaxBuffers-1)
	}
	return nil
}

// Barrier implements metal.Commands.
func (r *Recorder[P]) Barrier() {
	if r.Open("Barrier") {
		r.barriers++
	}
}

// checkGrid returns an error if no pipeline is set or the pipeline cannot run a dispatch of this
// size.
func (r *Recorder[P]) checkGrid(groups, threads metal.Size) error {
	if none := *new(P); r.Pipeline == none {
		return errors.New("no pipeline: call SetPipeline first")
	}
	maxThreads := r.Pipeline.Facts().MaxTotalThreadsPerThreadgroup
	switch {
	case groups.X < 1 || groups.Y < 1 || groups.Z < 1:
		return fmt.Errorf("%s threadgroups, expected at least one in each dimension: leave out a "+
			"dispatch with nothing to do", groups)
	case threads.X < 1 || threads.Y < 1 || threads.Z < 1 || threads.Count() > maxThreads:
		return fmt.Errorf("threadgroups of %s threads, expected 1 to %d for kernel %s", threads,
			maxThreads, r.Pipeline.Kernel().Name)
	case int64(groups.X)*int64(groups.Y)*int64(groups.Z) > 1<<31-1:
		return fmt.Errorf("%s threadgroups are more than 2^31", groups)
	}
	return nil
}

// Reset clears everything except CheckBuffer, for the next recording.
func (r *Recorder[P]) Reset() { *r = Recorder[P]{CheckBuffer: r.CheckBuffer} }

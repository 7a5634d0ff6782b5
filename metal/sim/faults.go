//go:build linux && amd64

package sim

// Descriptions of the runtime's faults: what happened, where in the source, and what to do.

import (
	"errors"
	"fmt"

	"headroom/metal/msl"
)

// Kinds of faults, as in runtime/msl.h.
const (
	deadlock = 1 + iota
	barrierAfterReturn
	barrierDiverged
	simdDiverged
	threadgroupMemory
	_ // unused
	matrixInactive
	matrixAddress
	shuffle
	raceWriteWrite
	raceReadAfterWrite
	raceWriteAfterRead
	uninitialised
	outOfBoundsRead
	outOfBoundsWrite
	outOfBoundsThreadgroup
	readOnly
)

// The runtime numbers the threads of a dispatch group*maxThreadsPerGroup + thread.
const maxThreadsPerGroup = msl.MaxThreadsPerThreadgroup

// faults joins the faults of a call, up to maxFaults.
func (x *dispatch) faults(call *cDispatch) error {
	var errs []error
	seen := map[string]bool{}
	for _, f := range call.fault[:min(call.faults, maxFaults)] {
		text := x.describe(f) + x.at(f.pc)
		if seen[text] {
			continue
		}
		seen[text] = true
		errs = append(errs, fmt.Errorf("threadgroup %d, thread %d: %s", f.group, f.thread, text))
	}
	if call.faults > maxFaults {
		errs = append(errs, fmt.Errorf("and %d more", call.faults-maxFaults))
	}
	return errors.Join(errs...)
}

// at returns " at file:line", or "" if the source line is unknown. pc is a return address.
func (x *dispatch) at(pc uint64) string {
	l := x.Pipeline.library
	if pc == 0 {
		return ""
	}
	if place := sourceLine(l.path, pc-l.image[0]-1); place != "" {
		return " at " + place
	}
	return ""
}

func (x *dispatch) describe(f cFault) string {
	switch f.kind {
	case deadlock:
		return fmt.Sprintf(
			"deadlock: some threads wait at line %d for others that wait elsewhere or have "+
				"returned: move barriers and simd operations into control flow "+
				"that all threads share", f.a>>8)
	case barrierAfterReturn:
		return fmt.Sprintf(
			"barrier reached after %d threads have returned: let threads without work reach it too",
			f.a)
	case barrierDiverged:
		return fmt.Sprintf(
			"threads of a threadgroup wait at different barriers, one of them at line %d: let all "+
				"threads reach the same one", f.a>>8)
	case simdDiverged:
		return fmt.Sprintf(
			"lanes of a simdgroup meet in different simd operations, one of them at line %d: let "+
				"all lanes reach the same one", f.a>>8)
	case threadgroupMemory:
		return fmt.Sprintf("%d bytes of threadgroup memory, at most %d", f.a, f.b)
	case matrixInactive:
		return fmt.Sprintf(
			"simdgroup matrix operation with lanes missing (mask %#08x): all 32 must take part",
			f.a)
	case matrixAddress:
		return fmt.Sprintf(
			"simdgroup matrix load or store: lane %d has another address or stride; all lanes "+
				"must have the same", f.a)
	case shuffle:
		return fmt.Sprintf("shuffle or broadcast from lane %d, which does not take part", f.a)
	case raceWriteWrite, raceReadAfterWrite, raceWriteAfterRead:
		return x.race(f)
	case uninitialised:
		return fmt.Sprintf(
			"reads threadgroup memory that no thread has written (byte %d of its variable)", f.a)
	case outOfBoundsRead:
		return "reads " + x.outside(f)
	case outOfBoundsWrite:
		return "writes " + x.outside(f)
	case outOfBoundsThreadgroup:
		return fmt.Sprintf("accesses %d bytes outside every threadgroup variable", f.b)
	case readOnly:
		return fmt.Sprintf("writes %s, which the kernel's arguments declare as read-only",
			x.where(f.a, f.a+f.b))
	}
	return fmt.Sprintf("fault %d (%d, %d)", f.kind, f.a, f.b)
}

func (x *dispatch) race(f cFault) string {
	did := map[uint32]string{raceWriteWrite: "writes %s, which %s wrote",
		raceReadAfterWrite: "reads %s, which %s wrote",
		raceWriteAfterRead: "writes %s, which %s read"}[f.kind]
	memory, group, thread := "threadgroup memory", f.b/maxThreadsPerGroup, f.b%maxThreadsPerGroup
	if f.threadgroupMemory == 0 {
		memory = x.where(f.a, f.a+1)
		if shared := x.shared(f.a); shared != "" {
			memory += ", the same memory as " + shared + " (the output overlaps an input)"
		}
	}
	if group != uint64(f.group) {
		return "race: " + fmt.Sprintf(did, memory,
			fmt.Sprintf("thread %d of threadgroup %d", thread, group)) +
			": threadgroups of one dispatch have no order; give each its own bytes, or use two " +
			"dispatches with a barrier"
	}
	return "race: " + fmt.Sprintf(did, memory, fmt.Sprintf("thread %d", thread)) +
		" without a barrier in between: call threadgroup_barrier with mem_threadgroup for " +
		"threadgroup memory, mem_device for buffers"
}

// shared describes a second binding of the byte at address, "" if there is only one.
func (x *dispatch) shared(address uint64) string {
	found := 0
	for i := range x.Pipeline.Kernel().Arguments {
		a := &x.Pipeline.Kernel().Arguments[i]
		if a.Kind != msl.BufferArgument || x.bindings[a.Index].Buffer == nil {
			continue
		}
		if s := addressesOf(x.bindings[a.Index]); address >= s.from && address < s.to {
			if found++; found == 2 {
				return fmt.Sprintf("buffer %d, %s", a.Index, a.Name)
			}
		}
	}
	return ""
}

// outside describes an access out of bounds by the nearest binding.
func (x *dispatch) outside(f cFault) string {
	nearest, text := ^uint64(0), "through a buffer argument that has no buffer"
	for i := range x.Pipeline.Kernel().Arguments {
		a := &x.Pipeline.Kernel().Arguments[i]
		if a.Kind != msl.BufferArgument || x.bindings[a.Index].Buffer == nil {
			continue
		}
		s := addressesOf(x.bindings[a.Index])
		switch {
		case f.a >= s.to && f.a-s.to < nearest:
			nearest = f.a - s.to
			text = fmt.Sprintf("%d bytes, %d bytes past the end of buffer %d, %s (%d bytes)", f.b,
				nearest, a.Index, a.Name, s.to-s.from)
		case f.a < s.from && s.from-f.a < nearest:
			nearest = s.from - f.a
			text = fmt.Sprintf("%d bytes, %d bytes before buffer %d, %s", f.b, nearest, a.Index,
				a.Name)
		case f.a < s.to && f.a >= s.from:
			nearest = 0
			text = fmt.Sprintf("%d bytes across the end of buffer %d, %s (%d bytes)", f.b, a.Index,
				a.Name, s.to-s.from)
		}
	}
	return "out of bounds: " + text
}

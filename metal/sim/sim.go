// Package sim implements package metal without a GPU. It compiles the same .metal text with clang,
// as C++ for OpenCL 2021, and runs it on the CPU with the same grid. The threads of a threadgroup
// are fibers, which meet at barriers and in simdgroup operations. The device finds mistakes; it is
// not fast:
//
//   - Source that clang accepts and Metal rejects is an error (lint.go, and package msl).
//   - The host's mistakes in indices, struct sizes, alignment, lengths and limits are errors that
//     say what to do (record.go).
//   - Work runs when it is committed. Dispatches between two barriers run in shuffled order
//     (run.go).
//   - With Options.Check, loads and stores are instrumented. The checker finds accesses out of
//     bounds, races and missing barriers within a threadgroup and between threadgroups, and reads
//     of unwritten threadgroup memory (runtime/check.c). It also finds dispatches that access the
//     same bytes without a barrier between them (conflict.go). New buffers hold 0xFF.
//
// Without Options.Check an access out of bounds is undefined behavior, as in C.
//
// The device needs Linux, clang 19 or later and an x86-64 CPU with AVX2; build/setup sim installs
// clang. metal/UNVERIFIED.md lists its limits.
package sim

import "errors"

// Options are the device's settings. The zero value is a fast device on all cores.
type Options struct {
	// Check builds kernels with the checker. They run several times slower, on one thread.
	Check bool
	// Seed determines the order of dispatches between barriers and, with Check, of threads. Equal
	// seeds give equal orders.
	Seed uint64
	// Threads is the number of OS threads that run threadgroups; 0 means GOMAXPROCS. With Check it
	// is 1.
	Threads int
	// MaxBufferLength is the size in bytes of the longest buffer; 0 means 1 TiB. Tests choose a
	// small one, so that memory is split as on a Mac with a model that is longer than a buffer.
	MaxBufferLength uint64
	// Fault is called before each commit with its number of dispatches. If it returns an error, the
	// commit does not run and has that error, as when a system ends work (metal.ErrTimeout); the
	// device goes on. Calls come from one goroutine. nil: nothing fails.
	Fault func(dispatches int) error
	// CacheDir is the folder of compiled kernels, named by a hash of their inputs; "" means
	// headroom/metal-sim in the user's cache folder.
	CacheDir string
}

// ErrUnavailable is wrapped by the errors of Open on a machine that cannot run the device. Tests
// skip themselves then.
var ErrUnavailable = errors.New("the simulated Metal device is not available here")

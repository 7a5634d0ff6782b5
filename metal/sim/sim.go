// Package sim is a Metal device without Metal: it compiles the very same .metal text with clang, as
// C++ for OpenCL 2021, and runs it on the CPU with the same dispatch geometry. A threadgroup's
// threads are fibers, which meet at barriers and in simdgroup operations. It is there to find
// mistakes, not to be fast:
//
//   - what Metal's compiler refuses and clang accepts is refused (lint.go, and package msl);
//   - what the host does wrong is an error that says what to do: indices, struct sizes, alignment, lengths, limits (record.go);
//   - work runs when it is committed, dispatches between two barriers in shuffled order (run.go);
//   - with Options.Check, kernels are built with instrumented loads and stores: accesses out of bounds, races and missing barriers
//     within a threadgroup and between threadgroups, reads of threadgroup memory that nobody has written (runtime/check.c), and
//     dispatches that touch the same bytes without a barrier between them (conflict.go). Fresh buffers hold 0xFF.
//
// Without Options.Check an access out of bounds does what it does in C: at best it ends the
// process. Look for it with Check.
//
// It needs clang 19 or later and an x86-64 CPU with AVX2, on Linux; build/setup sim installs clang.
// What it cannot see stands in metal/UNVERIFIED.md.
package sim

import "errors"

// Options are the device's settings; the zero value is a fast device on all cores.
type Options struct {
	// Check builds kernels for the checker: several times slower, one thread.
	Check bool
	// Seed decides the order of dispatches between barriers and, with Check, of threads. Equal
	// seeds give equal orders.
	Seed uint64
	// Threads is the number of OS threads that threadgroups run on; 0 means one per core. With
	// Check it is 1.
	Threads int
	// CacheDir keeps compiled kernels, by hash of everything that goes into them; "" means
	// headroom/metal-sim in the user's cache.
	CacheDir string
}

// ErrUnavailable is wrapped by Open's error where the device cannot be had on this machine: tests
// skip themselves then.
var ErrUnavailable = errors.New("the simulated Metal device is not available here")

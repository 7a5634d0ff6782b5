// Package cpu is what CPU kernels run on: the instruction set found at start, a pool of threads,
// and scratch memory.
//
// A kernel's C code is compiled once per instruction set (kernels/common/foreach_isa.h) and picked
// by Context.ISA. Work is cut into units that threads take as they come; since no unit's result
// depends on another's, neither the cut nor the number of threads changes a bit of the result.
package cpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options choose how the CPU device works. The zero value is right for inference.
type Options struct {
	// Threads that compute, the caller's included. 0 means one per core (performance cores where
	// the system tells).
	Threads int
	// ISA limits the instruction set, for tests. Auto (the zero value) means the best there is.
	ISA ISA
	// Float32Activations multiplies quantized weights, keys and values with float32 activations. By
	// default the CPU rounds activations and queries to 8 bits per 32 to 128 elements, and weights
	// of attention to 15, for these products, which is several times faster; the loss it costs is
	// measured in the tests.
	Float32Activations bool
}

// Context is the CPU as an operator sees it. Only the goroutine that owns the device may use it.
type Context struct {
	ISA            ISA
	Threads        int
	Int8Activation bool

	pool   pool
	shared []byte
	local  [][]byte
}

// NewContext starts the threads. Close ends them.
func NewContext(o Options) *Context {
	c := &Context{ISA: o.ISA, Threads: o.Threads, Int8Activation: !o.Float32Activations}
	if c.ISA == Auto || c.ISA > Best() && c.ISA != Generic {
		c.ISA = Best()
	}
	if c.Threads <= 0 {
		c.Threads = runtime.NumCPU()
	}
	c.local = make([][]byte, c.Threads)
	leaveRoom(c.Threads)
	c.pool.start(c, c.Threads-1)
	return c
}

// leaveRoom lets Go run more goroutines at once than there are threads that compute. A kernel is C,
// and while every one of Go's places is in C, its monitor wakes each 20 µs to take one away, on the
// cores that compute: 13 % of a prompt's time (kernels/PERF.md). With a place free it sleeps.
func leaveRoom(threads int) {
	if want := min(threads, runtime.NumCPU()) + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// Close ends the threads and frees the scratch memory.
func (c *Context) Close() {
	c.pool.stop()
	Unmap(c.shared)
	for _, b := range c.local {
		Unmap(b)
	}
	c.shared, c.local = nil, nil
}

func (c *Context) String() string {
	return fmt.Sprintf("CPU, %s, %d threads", c.ISA, c.Threads)
}

// Shared is at least bytes of scratch for the running operator, seen by all its threads. It holds
// garbage, is page-aligned, and lasts until the operator returns or asks again. Call it outside
// Parallel.
func (c *Context) Shared(bytes int) []byte {
	if len(c.shared) < bytes {
		Unmap(c.shared)
		c.shared = Map(bytes + bytes/4)
	}
	return c.shared
}

// Local is at least bytes of scratch for one worker inside Parallel. It holds garbage.
func (c *Context) Local(worker, bytes int) []byte {
	if len(c.local[worker]) < bytes {
		Unmap(c.local[worker])
		c.local[worker] = Map(bytes + bytes/4)
	}
	return c.local[worker]
}

// hugeBytes is from where on memory is asked for in huge pages: a cache whose pages a token reads
// all over costs a walk of the page tables for each of them else. A smaller buffer would have more
// memory touched for it than it has.
const hugeBytes = 4 << 20

// Map returns zeroed, page-aligned memory outside the Go heap: it never moves and C may keep its
// address.
func Map(bytes int) []byte {
	if bytes == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		// The ledger checks what fits before anything is loaded; this is the system refusing all
		// the same.
		panic(fmt.Sprintf("cpu: mapping %d bytes: %v", bytes, err))
	}
	if bytes >= hugeBytes {
		preferHugePages(b)
	}
	return b
}

// Unmap returns memory got from Map.
func Unmap(b []byte) {
	if len(b) > 0 {
		_ = unix.Munmap(b[:len(b):cap(b)])
	}
}

// Ptr is the address of b's first byte, for C; nil for an empty slice.
func Ptr(b []byte) unsafe.Pointer {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Pointer(&b[0])
}

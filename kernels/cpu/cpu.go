// Package cpu provides what CPU kernels run on: the instruction set, a pool of threads, and scratch
// memory.
//
// A kernel's C code is compiled once per instruction set (kernels/common/foreach_isa.h) and chosen
// by Context.ISA. Work is divided into units that threads share. No unit's result depends on
// another's, so neither the division nor the number of threads changes a bit of the result.
package cpu

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options configure the CPU device. Use the zero value for inference.
type Options struct {
	// Threads is the number of threads that compute, the caller's included. 0 means one per
	// performance core that the process may use, or one per logical processor if the system
	// does not report which cores these are.
	Threads int
	// ISA limits the instruction set, for tests. Auto (the zero value) means the best there is.
	ISA ISA
	// Float32Activations multiplies quantized weights, keys and values with float32 activations. By
	// default the CPU rounds activations and queries to 8 bits per 32 to 128 elements, and weights
	// of attention to 15 bits, for these products. That is several times faster, and tests measure
	// the loss of accuracy. Products with MXFP8 weights are always in float32.
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

// NewContext starts the threads, which run until Close.
func NewContext(o Options) *Context {
	c := &Context{ISA: o.ISA, Threads: o.Threads, Int8Activation: !o.Float32Activations}
	if c.ISA == Auto || c.ISA > Best() && c.ISA != Generic {
		c.ISA = Best()
	}
	if c.Threads <= 0 {
		c.Threads = defaultThreads()
	}
	c.local = make([][]byte, c.Threads)
	leaveRoom(c.Threads)
	c.pool.start(c, c.Threads-1)
	return c
}

// leaveRoom raises GOMAXPROCS above the number of threads that compute. Kernels are C, and while
// every P is in C, Go's monitor thread wakes every 20 µs to retake one, on the cores that compute.
// That takes 13 % of a prompt's time (PERF.md). With an idle P it sleeps.
func leaveRoom(threads int) {
	if want := min(threads, runtime.NumCPU()) + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// Close stops the threads and frees the scratch memory.
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

// Shared returns scratch memory of at least the given size in bytes. All threads of the running
// operator share it. It is page-aligned, its contents are undefined, and it is valid until the
// operator returns or calls Shared again. Call Shared outside Parallel.
func (c *Context) Shared(bytes int) []byte {
	if len(c.shared) < bytes {
		Unmap(c.shared)
		c.shared = Map(bytes + bytes/4)
	}
	return c.shared
}

// Local returns scratch memory of at least the given size in bytes, for one worker inside Parallel.
// Its contents are undefined.
func (c *Context) Local(worker, bytes int) []byte {
	if len(c.local[worker]) < bytes {
		Unmap(c.local[worker])
		c.local[worker] = Map(bytes + bytes/4)
	}
	return c.local[worker]
}

// hugeBytes is the size from which memory is mapped in huge pages. Decoding a token reads all of a
// KV cache, and each small page costs a walk of the page tables. With huge pages a smaller buffer
// would take much more memory than its size.
const hugeBytes = 4 << 20

// Map returns zeroed, page-aligned memory outside the Go heap: it never moves and C may store its
// address.
func Map(bytes int) []byte {
	if bytes == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		// The memory plan has checked that everything fits, but the system refuses the memory.
		panic(fmt.Sprintf("cpu: mapping %d bytes: %v", bytes, err))
	}
	if bytes >= hugeBytes {
		preferHugePages(b)
	}
	return b
}

// Discard returns the memory of the system's pages that are entirely within b to the system. b is
// within memory that Map returned. What it had is lost: it may read as zeros. It can be written as
// before. The error is the system's, and the memory stays then.
func Discard(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	page := uintptr(os.Getpagesize())
	start := uintptr(Ptr(b))
	from := int(-start % page)
	to := len(b) - int((start+uintptr(len(b)))%page)
	if from >= to {
		return nil
	}
	return discard(b[from:to])
}

// Unmap frees memory that Map returned. An empty slice is ignored.
func Unmap(b []byte) {
	if len(b) > 0 {
		_ = unix.Munmap(b[:len(b):cap(b)])
	}
}

// Ptr returns the address of b's first byte, for C, and nil for an empty slice.
func Ptr(b []byte) unsafe.Pointer {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Pointer(&b[0])
}

//go:build linux || darwin

package memory

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapWords returns memory outside Go's heap, so that release gives it back to the system at once;
// nil if there is not enough.
func mapWords(bytes int) (words []uint64, release func()) {
	data, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&data[0])), bytes/8),
		func() { _ = unix.Munmap(data) }
}

// eachPart calls do for an equal part of words on each processor, and waits for all.
func eachPart(words []uint64, do func(part []uint64)) {
	var all sync.WaitGroup
	parts := runtime.GOMAXPROCS(0)
	for i := range parts {
		all.Go(func() { do(words[len(words)*i/parts : len(words)*(i+1)/parts]) })
	}
	all.Wait()
}

// sum adds up the words, in four chains so that the processor waits for memory alone.
//
//go:noinline
func sum(words []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(words) >= 8; words = words[8:] {
		w := (*[8]uint64)(words)
		a += w[0] + w[4]
		b += w[1] + w[5]
		c += w[2] + w[6]
		d += w[3] + w[7]
	}
	return a + b + c + d
}

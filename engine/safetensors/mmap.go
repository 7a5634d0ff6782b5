//go:build linux || darwin

package safetensors

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the whole file read-only. The mapping outlives the descriptor.
func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < lengthBytes {
		// The kernel refuses an empty mapping with a less helpful error.
		return nil,
			fmt.Errorf(
				"%s: file has %d bytes, too few for the 8-byte header length: it is truncated or "+
					"not safetensors", path, size)
	}
	if size > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes do not fit the address space", path, size)
	}
	// MAP_SHARED makes the pages part of the page cache: clean memory that the system may drop and
	// read again, counted once for all processes that map it.
	mapping, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s (%d bytes): %w", path, size, err)
	}
	return mapping, nil
}

// newPages returns anonymous pages of size bytes.
func newPages(size int64) ([]byte, error) {
	if size < lengthBytes || size > math.MaxInt {
		return nil, fmt.Errorf("%d bytes, too few for the 8-byte header length, or too many", size)
	}
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmap(mapping []byte) error { return unix.Munmap(mapping) }

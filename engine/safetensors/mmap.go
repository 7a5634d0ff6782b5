//go:build linux || darwin

package safetensors

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"headroom/engine/modelfile"
)

// mapFile maps the whole file read-only. The mapping stays valid after the file is closed.
func mapFile(path string) ([]byte, error) {
	f, info, err := modelfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := info.Size()
	if size < lengthBytes {
		// For an empty mapping the system would return a less helpful error.
		return nil, fmt.Errorf(
			"%s: file has %d bytes, too few for the 8-byte header length: it is truncated or not "+
				"a safetensors file", path, size)
	}
	if size > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes do not fit into the address space", path, size)
	}
	// With MAP_SHARED the mapping uses the pages of the page cache. The system may drop these pages
	// and read them again, and all processes that map the file share them.
	mapping, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s (%d bytes): %w", path, size, err)
	}
	return mapping, nil
}

// newPages allocates size bytes in anonymous pages.
func newPages(size int64) ([]byte, error) {
	if size < lengthBytes || size > math.MaxInt {
		return nil, fmt.Errorf("file has %d bytes, which is too few for the 8-byte header length, "+
			"or too many for memory", size)
	}
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmap(mapping []byte) error { return unix.Munmap(mapping) }

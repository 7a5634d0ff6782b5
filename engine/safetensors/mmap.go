//go:build linux || darwin

package safetensors

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"headroom/engine/modelfile"
)

// mapFile maps the whole file read-only. The mapping stays valid after the file is closed.
func mapFile(path string) (mapping []byte, stamp Stamp, err error) {
	f, info, err := modelfile.Open(path)
	if err != nil {
		return nil, stamp, err
	}
	defer f.Close()
	if stamp, err = stampOf(f.Fd()); err != nil {
		return nil, stamp, fmt.Errorf("%s: %w", path, err)
	}
	size := info.Size()
	if size < lengthBytes {
		// For an empty mapping the system would return a less helpful error.
		return nil, stamp, fmt.Errorf(
			"%s: file has %d bytes, too few for the 8-byte header length: it is truncated or not "+
				"a safetensors file", path, size)
	}
	if size > math.MaxInt {
		return nil, stamp, fmt.Errorf("%s: %d bytes do not fit into the address space", path,
			size)
	}
	// With MAP_SHARED the mapping uses the pages of the page cache. The system may drop these pages
	// and read them again, and all processes that map the file share them.
	mapping, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, stamp, fmt.Errorf("map %s (%d bytes): %w", path, size, err)
	}
	return mapping, stamp, nil
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

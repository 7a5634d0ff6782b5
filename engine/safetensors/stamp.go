//go:build linux || darwin

package safetensors

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Stamp tells whether a file has changed, without reading it. No program can set Changed to a time
// of its choice. The zero value is that of data that is not in a file.
type Stamp struct {
	Size              int64
	Inode             uint64
	Modified, Changed int64 // mtime and ctime, in nanoseconds since 1970
}

// stampOf returns the stamp of an open file.
func stampOf(fd uintptr) (Stamp, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(fd), &s); err != nil {
		return Stamp{}, fmt.Errorf("stat: %w", err)
	}
	return Stamp{s.Size, s.Ino, s.Mtim.Nano(), s.Ctim.Nano()}, nil
}

// Stamp returns the stamp that the file had when it was opened.
func (f *File) Stamp() Stamp { return f.stamp }

//go:build linux || darwin

package safetensors

// Whether a file has changed since it was read.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"headroom/engine/modelfile"
)

// Stamp tells whether a file has changed, without reading it. On file systems that KeepsChangeTime
// knows, no program can set Changed to a time of its choice. The zero value is that of data that is
// not in a file.
type Stamp struct {
	Size              int64
	Device, Inode     uint64
	Modified, Changed int64 // mtime and ctime, in nanoseconds since 1970
}

// stampOf returns the stamp of an open file.
func stampOf(fd uintptr) (Stamp, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(fd), &s); err != nil {
		return Stamp{}, fmt.Errorf("stat: %w", err)
	}
	return stampIn(&s), nil
}

func stampIn(s *unix.Stat_t) Stamp {
	return Stamp{s.Size, uint64(s.Dev), s.Ino, s.Mtim.Nano(), s.Ctim.Nano()}
}

// Stamp returns the stamp that the file had when it was opened, or after Sync.
func (f *File) Stamp() Stamp { return f.stamp }

// Changed reports whether the file at Path is another one, or has changed since Stamp.
func (f *File) Changed() bool {
	if f.stamp == (Stamp{}) {
		return false
	}
	var s unix.Stat_t
	return unix.Stat(f.path, &s) != nil || stampIn(&s) != f.stamp
}

// Sync makes every later write of the file change its stamp, and updates Stamp. A program that has
// mapped the file may write to a page that it has written to before, and no time changes. Once such
// pages are on disk, Linux notices the next write to each of them. What macOS does then, no test
// has seen. Sync must not be called while another goroutine uses the File.
func (f *File) Sync() error {
	file, _, err := modelfile.Open(f.path)
	if err != nil {
		return fmt.Errorf("safetensors: sync: %w", err)
	}
	defer file.Close()
	fd := file.Fd()
	stamp, err := stampOf(fd)
	if err == nil && (stamp.Device != f.stamp.Device || stamp.Inode != f.stamp.Inode) {
		err = errors.New("another file has replaced it since it was opened")
	}
	if err == nil {
		err = unix.Fsync(int(fd)) // os.File.Sync also empties the disk's own cache on a Mac
		for errors.Is(err, unix.EINTR) {
			err = unix.Fsync(int(fd))
		}
	}
	if err == nil {
		stamp, err = stampOf(fd)
	}
	if err != nil {
		return fmt.Errorf("safetensors: sync %s: %w", f.path, err)
	}
	f.stamp = stamp
	return nil
}

// KeepsChangeTime returns the name of the file system of a file, and whether it is known to keep a
// time of the last change that no program can set. On others ctime may be mtime, which programs set
// back after an edit, or a write through a map may go unnoticed.
func KeepsChangeTime(path string) (fileSystem string, keeps bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return err.Error(), false
	}
	return nameOf(&s)
}

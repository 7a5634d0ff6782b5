//go:build linux || darwin

package disk

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FreeBytes is how much an ordinary user may still write to the file system that the folder lies
// on.
func FreeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// SameDisk tells whether both paths, which exist, lie on one file system, so that a rename from one
// to the other moves no bytes.
func SameDisk(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// Rename moves a file or folder to a path on the same file system where nothing lies: unlike
// os.Rename it never replaces anything. The error is fs.ErrExist where something does.
func Rename(from, to string) error {
	err := renameExclusive(from, to)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		// A file system without such renames: look first, which is nearly as good.
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
		}
		return os.Rename(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

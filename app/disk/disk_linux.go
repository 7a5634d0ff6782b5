package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Clone clones a file to a new path; the two files share their blocks (a reflink, on Btrfs, XFS and
// bcachefs). It fails if the new path exists, or if the file system cannot clone; a failed clone
// leaves nothing behind.
func Clone(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(target.Fd()), int(source.Fd()))
	if closed := target.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(to)
		return &os.LinkError{Op: "clone", Old: from, New: to, Err: err}
	}
	return nil
}

// Clones reports whether the type of dir's file system supports clones. A clone may still fail.
func Clones(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return false
	}
	switch uint32(s.Type) {
	case unix.BTRFS_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, bcachefsMagic:
		return true
	}
	return false
}

const bcachefsMagic = 0xca451a4e

func renameExclusive(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// Exchange lets two files or folders of one file system change places, in one step. It fails if the
// file system cannot do that.
func Exchange(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// DropCache makes the next read of the file come from the disk and not from memory, so that
// written data can be verified.
func DropCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Clone makes a file at path to, where nothing may lie, that shares its blocks with the one at from
// (a reflink, on Btrfs, XFS and bcachefs). The error is of any kind where that is impossible;
// nothing lies at to then.
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

// Clones tells whether the file system that the folder lies on is of a kind that can clone files.
// It may still refuse to.
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

// DropCache has the next read of the file come from the disk: what was just written is compared
// with what is there.
func DropCache(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

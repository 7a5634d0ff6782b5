package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Clone makes a file at path to, where nothing may lie, that shares its blocks with the one at from
// (APFS). The error is of any kind where that is impossible; nothing lies at to then.
func Clone(from, to string) error {
	if err := unix.Clonefile(from, to, 0); err != nil {
		return &os.LinkError{Op: "clone", Old: from, New: to, Err: err}
	}
	return nil
}

// Clones tells whether the file system that the folder lies on is of a kind that can clone files.
// It may still refuse to.
func Clones(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && unix.ByteSliceToString(s.Fstypename[:]) == "apfs"
}

func renameExclusive(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }

// DropCache has the next read of the file come from the disk: what was just written is compared
// with what is there.
func DropCache(f *os.File) { _, _ = unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1) }

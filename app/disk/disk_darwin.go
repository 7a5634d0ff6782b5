package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Clone clones a file to a new path; the two files share their blocks (APFS). It fails if the new
// path exists, or if the file system cannot clone; a failed clone leaves nothing behind.
func Clone(from, to string) error {
	if err := unix.Clonefile(from, to, 0); err != nil {
		return &os.LinkError{Op: "clone", Old: from, New: to, Err: err}
	}
	return nil
}

// Clones reports whether the type of dir's file system supports clones. A clone may still fail.
func Clones(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && unix.ByteSliceToString(s.Fstypename[:]) == "apfs"
}

func renameExclusive(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }

// Exchange lets two files or folders of one file system change places, in one step. It fails if the
// file system cannot do that.
func Exchange(a, b string) error {
	if err := unix.RenamexNp(a, b, unix.RENAME_SWAP); err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// DropCache makes the next read of the file come from the disk and not from memory, so that
// written data can be verified.
func DropCache(f *os.File) { _, _ = unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1) }

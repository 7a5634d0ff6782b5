package seal

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// DestroyFile overwrites a file with zeros, syncs it and removes it. A missing file is no error. It
// refuses what is not a regular file.
func DestroyFile(path string) error {
	if err := OverwriteFile(path); err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// OverwriteFile is DestroyFile without the removal.
func OverwriteFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "destroy", Path: path, Err: fs.ErrInvalid}
	}
	if err == nil {
		err = overwrite(f, info.Size())
	}
	if err == nil {
		err = f.Sync() // on a Mac, Go asks the drive to empty its cache, too (F_FULLFSYNC)
	}
	return errors.Join(err, f.Close())
}

// overwrite writes n zeros at the beginning of the file.
func overwrite(f io.WriterAt, n int64) error {
	zeros := make([]byte, min(n, 64<<10))
	for at := int64(0); at < n; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(n-at, int64(len(zeros)))], at); err != nil {
			return err
		}
	}
	return nil
}

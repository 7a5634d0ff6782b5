package blockstore

// The file system, as far as entries need it: behind an interface, so that tests can make it fail.
// The index does not go through it.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folders and files under the store's folder.
const (
	blocksDir = "blocks" // entries: 2 hexadecimal digits / key.safetensors
	tempDir   = "tmp"    // what is being written, and each owner's lock
	indexName = "index.sqlite"
	lockName  = "index.lock" // held while the index is opened or replaced
	extension = ".safetensors"
)

// disk is what the store does with files. Paths are whole.
type disk interface {
	Create(path string) (writeFile, error) // a new file, 0600; an error if it exists
	Open(path string) (readFile, error)
	Rename(from, to string) error
	Remove(path string) error
	MkdirAll(path string) error // 0700
	Stat(path string) (os.FileInfo, error)
	FreeBytes(path string) (int64, error) // of the volume, for who is not root
}

type writeFile interface {
	io.WriteCloser
	Sync() error
}

type readFile interface {
	io.ReadCloser
	Stat() (os.FileInfo, error)
}

// osDisk is the real one.
type osDisk struct{}

func (osDisk) Create(path string) (writeFile, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// Open opens a regular file and nothing else: a pipe of that name would wait for a writer, a link
// leads out of the folder.
func (osDisk) Open(path string) (readFile, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, damage{err}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		return f, nil
	}
	f.Close()
	if err == nil {
		err = damage{fmt.Errorf("%s is not a regular file", path)}
	}
	return nil, err
}

func (osDisk) Rename(from, to string) error          { return os.Rename(from, to) }
func (osDisk) Remove(path string) error              { return os.Remove(path) }
func (osDisk) MkdirAll(path string) error            { return os.MkdirAll(path, 0o700) }
func (osDisk) Stat(path string) (os.FileInfo, error) { return os.Lstat(path) }

func (osDisk) FreeBytes(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

func entryPath(dir string, k Key) string {
	name := k.String()
	return filepath.Join(dir, blocksDir, name[:2], name+extension)
}

// lockFile makes the file at path and takes the lock on it, waiting for it if wait is set. The lock
// goes with the process, however it ends. Nil without error: somebody else holds it.
func lockFile(path string, wait bool) (*os.File, error) {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		for {
			if err = unix.Flock(int(f.Fd()), how); err != unix.EINTR {
				break
			}
		}
		if err != nil {
			f.Close()
			if err == unix.EWOULDBLOCK {
				return nil, nil
			}
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		// Whoever held it may have removed the file meanwhile: then this lock is on a file that
		// nobody else will find.
		held, err := f.Stat()
		named, nameErr := os.Stat(path)
		if err == nil && nameErr == nil && os.SameFile(held, named) {
			return f, nil
		}
		f.Close()
		if nameErr != nil && !errors.Is(nameErr, os.ErrNotExist) {
			return nil, nameErr
		}
	}
}

package blockstore

// The file system for entries is an interface, so that tests can inject faults. The index does not
// use it.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"headroom/engine/seal"
)

// Folders and files under the store's folder.
const (
	blocksDir = "blocks" // entries: first 2 hexadecimal digits / key.safetensors
	tempDir   = "tmp"    // files being written, and the lock of each open store
	indexName = "index.sqlite"
	lockName  = "index.lock" // held while the index is opened or replaced
	extension = ".safetensors"
)

// disk is the part of a file system that a store uses. Paths are absolute.
type disk interface {
	Create(path string) (writeFile, error) // a new file of mode 0600; fails if it exists
	Open(path string) (readFile, error)
	Rename(from, to string) error
	Remove(path string) error
	MkdirAll(path string) error // mode 0700
	Stat(path string) (os.FileInfo, error)
	OpenKeys(path string) (seal.SlotFile, error) // to read and write
	FreeBytes(path string) (int64, error)        // available to ordinary users on path's volume
}

type writeFile interface {
	io.WriteCloser
	Sync() error
}

type readFile interface {
	io.ReadCloser
	Stat() (os.FileInfo, error)
}

// osDisk is the real file system.
type osDisk struct{}

func (osDisk) Create(path string) (writeFile, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// Open opens regular files only: opening a pipe would wait for a writer, and a link may lead out of
// the folder.
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

// OpenKeys opens regular files only, like Open.
func (osDisk) OpenKeys(path string) (seal.SlotFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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

const (
	// lockWait is how long lockFile waits. Opening an index takes milliseconds, removing the plain
	// entries of a folder that is to be encrypted seconds.
	lockWait  = 30 * time.Second
	lockPause = 5 * time.Millisecond
	// lockFlags follow no link, which may lead to a file that is not the store's, and wait for no
	// other end of a pipe.
	lockFlags = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
)

// lockFile creates the file at path if necessary, and takes the lock on it. It waits up to a time
// while another process holds the lock. The lock ends with Close or with the process.
func lockFile(path string, wait time.Duration) (*flock.Flock, error) {
	for end := time.Now().Add(wait); ; {
		lock := flock.New(path, flock.SetFlag(os.O_CREATE|lockFlags)) // mode 0600
		locked, err := lock.TryLock()
		if locked {
			// The previous holder may have removed the file. Then no other process would find this
			// lock.
			var named bool
			if named, err = isAt(lock, path); named {
				return lock, nil
			}
			err = errors.Join(err, lock.Close())
		}
		if errors.Is(err, unix.ELOOP) {
			err = errNoFile
		}
		if err == nil && time.Now().After(end) {
			err = fmt.Errorf("another program has held the lock for %v", wait)
		}
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !locked {
			time.Sleep(lockPause)
		}
	}
}

// errNoFile is the error of something in the place of a store's file that no store wrote.
var errNoFile = errors.New("it is not a file but a link, a pipe or a folder. Move it elsewhere")

// isAt reports whether the locked file is still the one at path.
func isAt(lock *flock.Flock, path string) (bool, error) {
	held, err := lock.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil && !named.Mode().IsRegular() {
		err = errNoFile
	}
	return err == nil && os.SameFile(held, named), err
}

// isLocked reports whether any process holds the lock on the file at path. It does not create the
// file.
func isLocked(path string) (bool, error) {
	lock := flock.New(path, flock.SetFlag(lockFlags))
	locked, err := lock.TryLock()
	if locked {
		err = lock.Close()
	}
	return !locked, err
}

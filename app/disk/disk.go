// Package disk has file operations that package os lacks: free space, clones (copies that share
// their blocks with the original), renames that never replace anything, atomic writes, and locks
// between programs.
package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// ErrLocked means that another program, or another caller in this one, holds the lock.
var ErrLocked = errors.New("another program holds the lock")

// TryLock locks the file at path for this program, creating it with mode perm if necessary. It does
// not wait: if the file is locked, the error is ErrLocked. A link, a pipe or a folder at path is
// an error: a link may lead to a file that is not Headroom's. Unlock, or the end of the process,
// releases the lock. Unlock leaves the file in place, because other programs may have it open.
func TryLock(path string, perm os.FileMode) (*flock.Flock, error) {
	return tryLock(path, perm, (*flock.Flock).TryLock)
}

// TryLockShared is TryLock for a lock that several hold at once, while nobody holds TryLock's.
func TryLockShared(path string, perm os.FileMode) (*flock.Flock, error) {
	return tryLock(path, perm, (*flock.Flock).TryRLock)
}

func tryLock(path string, perm os.FileMode, take func(*flock.Flock) (bool, error)) (*flock.Flock,
	error) {
	const flags = os.O_RDWR | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	lock := flock.New(path, flock.SetFlag(flags), flock.SetPermissions(perm))
	locked, err := take(lock)
	if locked {
		var info os.FileInfo
		if info, err = lock.Stat(); err == nil && !info.Mode().IsRegular() {
			err = errNoFile
		}
	}
	if errors.Is(err, syscall.ELOOP) {
		err = errNoFile
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), lock.Close())
	}
	if !locked {
		return nil, ErrLocked
	}
	return lock, nil
}

var errNoFile = errors.New("it is not a file but a link, a pipe or a folder. Move it elsewhere")

// Lock is like TryLock, but waits up to a time for another program. The error then wraps ErrLocked
// and names the file.
func Lock(path string, perm os.FileMode, wait time.Duration) (*flock.Flock, error) {
	const pause = 5 * time.Millisecond
	for end := time.Now().Add(wait); ; time.Sleep(pause) {
		lock, err := TryLock(path, perm)
		if !errors.Is(err, ErrLocked) {
			return lock, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("locking %s: %w for %v", path, ErrLocked, wait)
		}
	}
}

// LockFolder keeps other programs that call it from changing the files in a folder, and leaves no
// file behind. It waits up to a time for another program; the error then wraps ErrLocked. On file
// systems without locks, and without the folder, it does nothing: writing has the same error.
func LockFolder(dir string, wait time.Duration) (unlock func(), err error) {
	const pause = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	l := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	_, err = l.TryLockContext(ctx, pause)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w on %s for %v", ErrLocked, dir, wait)
	}
	return func() { _ = l.Close() }, nil
}

// IsFull reports whether err, an error of a write, means that the disk or the user's quota is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// SyncDir syncs a folder, so that files created or renamed in it survive a power failure. It
// ignores errors, because not every file system can do that.
func SyncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

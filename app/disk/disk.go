// Package disk has file operations that package os lacks: free space, clones (copies that share
// their blocks with the original), renames that never replace anything, atomic writes, and locks
// between programs.
package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// ErrLocked means that another program, or another caller in this one, holds the lock.
var ErrLocked = errors.New("another program holds the lock")

// TryLock locks the file at path for this program, creating it with mode perm if necessary. It does
// not wait: if the file is locked, the error is ErrLocked. Unlock, or the end of the process,
// releases the lock. Unlock leaves the file in place, because other programs may have it open.
func TryLock(path string, perm os.FileMode) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR|os.O_CREATE), flock.SetPermissions(perm))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if !locked {
		return nil, ErrLocked
	}
	return lock, nil
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

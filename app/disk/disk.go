// Package disk is what files need of the system beyond package os: how much is free, copies that
// share their blocks with the original, renames that never replace anything, and locks between
// programs.
//
// Where a file system cannot do one of them, the function says so with an error (Clone), or does
// the next best (Rename).
package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Lock is a lock on a file between programs. It ends with Unlock, or with the program.
type Lock struct{ file *os.File }

// ErrLocked says that another program, or another goroutine, holds the lock.
var ErrLocked = errors.New("another program is at work here")

// TryLock locks the file at path, which it creates if need be. The error is ErrLocked where
// somebody else holds it.
func TryLock(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &Lock{file}, nil
}

// Unlock ends the lock. The file stays: whoever waits for it has it open.
func (l *Lock) Unlock() { _ = l.file.Close() }

// IsFull tells whether an error of writing means that there is no room left.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// SyncDir makes what has been renamed or created in a folder last. Not every file system can; that
// is no error.
func SyncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

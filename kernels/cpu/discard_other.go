//go:build !linux

package cpu

import "golang.org/x/sys/unix"

// discard lets the system take the pages of b when it needs memory. A page that is written before
// that stays.
func discard(b []byte) error { return unix.Madvise(b, unix.MADV_FREE) }

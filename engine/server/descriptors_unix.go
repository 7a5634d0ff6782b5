//go:build unix

package server

import "syscall"

// descriptorLimit returns how many file descriptors this process may have. Go has raised the soft
// limit to the hard limit when the process started (package os).
func descriptorLimit() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 256 // macOS's default soft limit, the lowest of common systems
	}
	return uint64(l.Cur)
}

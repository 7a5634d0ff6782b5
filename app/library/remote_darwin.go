package library

import (
	"strings"
	"syscall"
)

// isRemote tells a folder in which changes may happen without an event: statfs says whether its
// file system is a local one, and FUSE's say so too, whatever lies behind them.
func isRemote(dir string) bool {
	const local = 0x1000 // MNT_LOCAL of sys/mount.h
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return false
	}
	var name strings.Builder
	for _, c := range s.Fstypename {
		if c == 0 {
			break
		}
		name.WriteByte(byte(c))
	}
	return s.Flags&local == 0 || strings.Contains(name.String(), "fuse")
}

package library

import (
	"strings"
	"syscall"
)

// isRemote reports whether changes in dir can go unreported: its file system is not local, or it is
// FUSE, which always claims to be local.
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

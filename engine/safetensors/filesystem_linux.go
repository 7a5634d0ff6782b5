package safetensors

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems are those that keep a change time of their own, by their magic number. A write
// through a map changes it once the page is on disk, so file systems in memory are not among them.
var fileSystems = map[uint32]string{
	unix.EXT4_SUPER_MAGIC:      "ext4", // ext2 and ext3 have the same number
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	0x2fc12fc1:                 "zfs",
}

func nameOf(s *unix.Statfs_t) (name string, keeps bool) {
	if name, keeps = fileSystems[uint32(s.Type)]; !keeps {
		name = fmt.Sprintf("%#x", uint32(s.Type))
	}
	return name, keeps
}

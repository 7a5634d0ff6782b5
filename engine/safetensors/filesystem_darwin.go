package safetensors

import "golang.org/x/sys/unix"

// fileSystems are those that keep a change time of their own.
var fileSystems = map[string]bool{"apfs": true, "hfs": true}

func nameOf(s *unix.Statfs_t) (name string, keeps bool) {
	name = unix.ByteSliceToString(s.Fstypename[:])
	return name, fileSystems[name]
}

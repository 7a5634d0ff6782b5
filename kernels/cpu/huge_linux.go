package cpu

import "golang.org/x/sys/unix"

// preferHugePages asks the system to back b with pages of 2 MB where it can.
func preferHugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

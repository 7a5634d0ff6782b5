package cpu

import "golang.org/x/sys/unix"

// preferHugePages has b come in pages of 2 MB where the system has some to give.
func preferHugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

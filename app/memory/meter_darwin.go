package memory

import "golang.org/x/sys/unix"

// wiredLimitBytes is the limit that somebody set for the GPU. 0, the system's default, has no
// number here: only Metal knows it, and it is never computed.
func wiredLimitBytes() int64 {
	megabytes, err := unix.SysctlUint32("iogpu.wired_limit_mb")
	if err != nil {
		return 0
	}
	return int64(megabytes) << 20
}

// processFileBytes: macOS counts as available what is free or inactive; pages that are mapped and
// used are neither.
func processFileBytes(int) int64 { return 0 }

func containerLimit() (limit, used int64, ok bool) { return 0, 0, false }

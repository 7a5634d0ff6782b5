package memory

import "golang.org/x/sys/unix"

// wiredLimitBytes returns the GPU's wired limit if the user has set one. It returns 0 for the
// system's default, whose size only Metal knows.
func wiredLimitBytes() int64 {
	megabytes, err := unix.SysctlUint32("iogpu.wired_limit_mb")
	if err != nil {
		return 0
	}
	return int64(megabytes) << 20
}

// processFileBytes returns 0: macOS counts free and inactive pages as available, and the mapped
// pages that a process uses are neither.
func processFileBytes(int) int64 { return 0 }

func containerLimit() (limit, used int64, ok bool) { return 0, 0, false }

// chipName returns what the processor calls itself: "Apple M1 Pro"; "": not known.
func chipName() string {
	name, _ := unix.Sysctl("machdep.cpu.brand_string")
	return name
}

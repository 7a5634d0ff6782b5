package cpu

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// defaultThreads returns the number of performance cores. On an Intel Mac, which has only one type
// of core and no such sysctl, it returns the number of cores.
func defaultThreads() int {
	n, err := unix.SysctlUint32("hw.perflevel0.physicalcpu")
	if err != nil || n == 0 {
		return runtime.NumCPU()
	}
	return min(int(n), runtime.NumCPU())
}

// keepOnPerformanceCores does nothing: macOS chooses the core of a thread.
func keepOnPerformanceCores(int) {}

package cpu

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// defaultThreads returns the number of performance cores. An Intel Mac does not tell it, since all
// of its cores are alike.
func defaultThreads() int {
	n, err := unix.SysctlUint32("hw.perflevel0.physicalcpu")
	if err != nil || n == 0 {
		return runtime.NumCPU()
	}
	return min(int(n), runtime.NumCPU())
}

// keepOnPerformanceCores does nothing: macOS chooses the core of a thread.
func keepOnPerformanceCores(int) {}

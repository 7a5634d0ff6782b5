package cpu

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// affinity holds the processors that the system allows this process, and the performance cores
// among them, as they were at the first call.
var affinity = sync.OnceValues(func() (allowed, performance []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil, nil
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			allowed = append(allowed, cpu)
		}
	}
	return allowed, performanceCores(os.DirFS("/sys"), allowed)
})

// defaultThreads returns the number of performance cores that this process may use.
func defaultThreads() int {
	if _, performance := affinity(); len(performance) > 0 {
		return len(performance)
	}
	return runtime.NumCPU()
}

// keepOnPerformanceCores restricts the calling system thread to performance cores, if there is one
// for each thread. It does nothing if there is only one type of core: a thread that may run on
// several cores does not have to wait for a busy one.
func keepOnPerformanceCores(threads int) {
	allowed, performance := affinity()
	if threads > len(performance) || len(performance) == len(allowed) {
		return
	}
	var set unix.CPUSet
	for _, cpu := range performance {
		set.Set(cpu)
	}
	_ = unix.SchedSetaffinity(0, &set)
}

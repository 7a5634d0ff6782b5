//go:build !linux && !darwin

package cpu

import "runtime"

// defaultThreads returns the number of logical processors.
func defaultThreads() int { return runtime.NumCPU() }

func keepOnPerformanceCores(int) {}

package kerneltest

import "headroom/kernels"

// Timing is kernels.Timing.
type Timing = kernels.Timing

// Timings returns a Timing for each case that has Bytes or Flops.
func Timings(cases []kernels.Case) []Timing { return kernels.Timings(cases) }

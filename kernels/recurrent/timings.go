package recurrent

import (
	"fmt"

	"headroom/kernels"
)

// LargeTimings returns the cases that are timed on GPUs, and one token of each of many sequences
// with the shape of Qwen3.5-35B-A3B.
func LargeTimings() []kernels.Timing {
	cases := Cases()
	for _, state := range []kernels.DType{kernels.F32, kernels.BF16, kernels.I8} {
		for _, sequences := range []int{8, 64} {
			one := make([]int, sequences)
			for i := range one {
				one[i] = 1
			}
			c := gatedDeltaShape{state, 16, 32, 128, 128, one, one}.toCase()
			c.Name = fmt.Sprintf("gated_delta_%s_decode_%d", short(state), sequences)
			cases = append(cases, c)
		}
	}
	return kernels.Timings(cases)
}

// Package ceiling measures what a machine can do at best: how fast it reads memory, and how many
// multiply-adds its processor does a second. Benchmarks compare operators with these rates. Memory
// bounds every operator of a decode step, and arithmetic most operators of a long prompt.
package ceiling

import "headroom/kernels"

// Cases returns the cases of Read for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return readCases() }

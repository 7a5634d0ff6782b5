// Package ceiling measures what a machine can do at best: how fast it reads memory, and how many
// multiply-adds its processor does a second. Benchmarks compare operators with these rates. Every
// operator of a decode step is bound by memory, and most of those of a long prompt by arithmetic.
package ceiling

import "headroom/kernels"

// Cases are the cases of Read, for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return readCases() }

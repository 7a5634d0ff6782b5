// Package moe holds what a mixture-of-experts block does around its matrix products: choosing the
// experts of each token, and adding up what they return.
package moe

import "headroom/kernels"

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case { return append(routeCases(), combineCases()...) }

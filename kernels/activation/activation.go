// Package activation holds the elementwise steps between matrix products: the GEGLU product, output
// gates and sums. SwiGLU's belongs to its products (matmul.GateUp).
package activation

import "headroom/kernels"

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case {
	var cases []kernels.Case
	cases = append(cases, geluMulCases()...)
	cases = append(cases, sigmoidMulCases()...)
	return append(cases, addCases()...)
}

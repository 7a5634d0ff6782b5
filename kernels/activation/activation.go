// Package activation implements elementwise operators: the products of GEGLU and SwiGLU, output
// gates and sums. Where the projections of SwiGLU have no bias, its product is part of
// matmul.GateUp.
package activation

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	var cases []kernels.Case
	cases = append(cases, geluMulCases()...)
	cases = append(cases, siluMulCases()...)
	cases = append(cases, sigmoidMulCases()...)
	return append(cases, addCases()...)
}

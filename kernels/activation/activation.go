// Package activation implements elementwise operators: the product of GEGLU, output gates and sums.
// The product of SwiGLU is part of matmul.GateUp.
package activation

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	var cases []kernels.Case
	cases = append(cases, geluMulCases()...)
	cases = append(cases, sigmoidMulCases()...)
	return append(cases, addCases()...)
}

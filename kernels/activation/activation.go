// Package activation implements elementwise operators: the products of GEGLU and SwiGLU, output
// gates, caps of logits, sums and products. Where the projections of SwiGLU have no bias, its
// product is part of matmul.GateUp.
package activation

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	var cases []kernels.Case
	cases = append(cases, geluMulCases()...)
	cases = append(cases, geluErfMulCases()...)
	cases = append(cases, siluMulCases()...)
	cases = append(cases, reluMulCases()...)
	cases = append(cases, sigmoidMulCases()...)
	cases = append(cases, softCapCases()...)
	cases = append(cases, mulCases()...)
	return append(cases, addCases()...)
}

// Package moe has the operators of a mixture-of-experts block around its matrix products: Route
// chooses the experts of each token, ClampedSwiGLU is the activation of experts with biases, and
// Combine adds up their outputs.
package moe

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	return append(append(routeCases(), clampedSwiGLUCases()...), combineCases()...)
}

// Package embedding reads rows: of the embedding matrix, by token, and of activations, by index.
package embedding

import "headroom/kernels"

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case { return append(lookupCases(), rowsCases()...) }

// Package embedding reads single rows: Lookup those of the embedding matrix by token, and Rows
// those of activations by index.
package embedding

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the selftest.
func Cases() []kernels.Case { return append(lookupCases(), rowsCases()...) }

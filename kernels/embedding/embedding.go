// Package embedding gathers rows: Lookup reads rows of the embedding matrix by token, and Rows
// reads rows of activations by index.
package embedding

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return append(lookupCases(), rowsCases()...) }

// Package embedding gathers rows: Lookup reads rows of the embedding matrix by token, and Rows
// reads rows of activations by index. Columns reorders the columns of activations.
package embedding

import (
	"slices"

	"headroom/kernels"
)

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	return slices.Concat(lookupCases(), rowsCases(), columnsCases())
}

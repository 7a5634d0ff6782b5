// Package attention implements causal attention over a paged KV cache. Cache holds the keys and
// values of one layer, Append writes new ones into it, Attention reads them, and Select selects
// those that the tokens after a long prompt read.
package attention

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return append(kvAppendCases(), pagedAttentionCases()...) }

// HostCases returns the cases of the operators that have no Metal kernel. A GPU's self-test has
// nothing to compare with them.
func HostCases() []kernels.Case { return selectCases() }

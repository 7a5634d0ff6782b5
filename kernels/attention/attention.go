// Package attention implements causal attention over a paged KV cache. Cache holds the keys and
// values of one layer, Append writes new ones into it, and Attention reads them.
package attention

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return append(kvAppendCases(), pagedAttentionCases()...) }

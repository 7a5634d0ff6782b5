// Package attention is causal attention over a paged KV cache: the cache of one layer, the operator
// that appends keys and values to it, and the operator that attends.
package attention

import "headroom/kernels"

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case { return append(kvAppendCases(), pagedAttentionCases()...) }

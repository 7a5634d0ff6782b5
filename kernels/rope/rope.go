// Package rope implements rotary position embedding. NormRope applies RMSNorm to each head if the
// model has it, and then the rotation, in one pass over the projected queries or keys.
package rope

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return normRopeCases() }

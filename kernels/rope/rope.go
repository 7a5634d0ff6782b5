// Package rope turns positions into rotations: RMSNorm of each head where the model has one, then
// rotary embedding, in one pass over the projected queries or keys.
package rope

import "headroom/kernels"

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case { return normRopeCases() }

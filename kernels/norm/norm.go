// Package norm holds the normalizations: RMSNorm and the gated RMSNorm of GatedDeltaNet.
package norm

import "headroom/kernels"

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case { return append(rmsNormCases(), gatedRMSNormCases()...) }

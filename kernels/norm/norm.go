// Package norm implements RMSNorm and the gated RMSNorm of GatedDeltaNet.
package norm

import "headroom/kernels"

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case { return append(rmsNormCases(), gatedRMSNormCases()...) }

// Package norm implements RMSNorm, LayerNorm and the gated RMSNorm of GatedDeltaNet.
package norm

import (
	"slices"

	"headroom/kernels"
)

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	return slices.Concat(rmsNormCases(), gatedRMSNormCases(), layerNormCases())
}

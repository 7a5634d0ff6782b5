// Package recurrent holds the operators that carry a state along a sequence: the causal convolution
// and the gated delta rule of GatedDeltaNet, and both in one.
//
// A sequence's state lies in one row ("slot") of a state tensor, named by its span. A span that
// starts at position 0 begins with zeros, whatever the slot holds; each span leaves its final state
// in its slot. There is one sequential form for prefill, decode and verification, and a state is
// rounded to the form it is kept in after every token (state.go), so a sequence cut into spans at
// any points gives the same bits as one span.
package recurrent

import (
	"slices"

	"headroom/kernels"
)

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case {
	return slices.Concat(convCases(), gatedDeltaCases(), convGatedDeltaCases())
}

// Package recurrent implements the operators that carry a state along a sequence: the causal
// convolution, the gated delta rule, both in one operator, and the recurrence of Mamba-2.
//
// The state of a sequence is one row ("slot") of a state tensor, and the span names the slot. A
// span at position 0 begins with a state of zeros, whatever the slot contains, and each span writes
// its final state to its slot. Prefill, decode and verification run the same sequential algorithm,
// and the state is rounded to its storage type after every token (state.go). So a sequence gives
// the same bits however it is split into spans.
package recurrent

import (
	"slices"

	"headroom/kernels"
)

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	return slices.Concat(convCases(), gatedDeltaCases(), convGatedDeltaCases(), ssmCases(),
		keepingCases())
}

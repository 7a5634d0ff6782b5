// Package recurrent holds the operators that carry a state along a sequence: the causal convolution and the gated delta rule of
// GatedDeltaNet.
//
// A sequence's state lies in one row ("slot") of a state tensor, named by its span. A span that starts at position 0 begins with
// zeros, whatever the slot holds; each span leaves its final state in its slot. There is one sequential form for prefill, decode
// and verification, so a sequence cut into spans at any points gives the same bits as one span.
package recurrent

import (
	"errors"
	"fmt"
	"slices"

	"headroom/kernels"
)

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case { return append(convCases(), gatedDeltaCases()...) }

// checkState returns an error unless spans lie inside rows rows and every span has a slot of its own among state's rows.
func checkState(spans []kernels.Span, rows int, state kernels.Tensor, width int) error {
	err := errors.Join(kernels.CheckSpans(spans, rows), kernels.CheckShape("state", state, kernels.F32, -1, width))
	for i, s := range spans {
		if s.Slot < 0 || int(s.Slot) >= state.Rows {
			err = errors.Join(err, fmt.Errorf("span %d: slot %d, expected one of %d", i, s.Slot, state.Rows))
		}
		if slices.ContainsFunc(spans[:i], func(o kernels.Span) bool { return o.Slot == s.Slot }) {
			err = errors.Join(err, fmt.Errorf("span %d: slot %d belongs to an earlier span too, expected one span per slot", i, s.Slot))
		}
	}
	return err
}

package recurrent

// Keeping states inside a span: for a later prompt that begins alike, or to go back to when a draft
// turns out to be wrong. Rounds are the same rows again, with the spans split where a state is
// kept. The CPU computes one round after another and copies states between them. A GPU computes
// whole spans and writes each kept state as it comes by, which saves dispatches.

import (
	"errors"
	"fmt"
	"slices"

	"headroom/kernels"
)

// keepsAny reports whether a state is kept after any of the rounds.
func keepsAny(rounds []kernels.Round) bool {
	return slices.ContainsFunc(rounds, func(r kernels.Round) bool { return len(r.Keeps) > 0 })
}

// checkRounds returns an error unless each kept state is that of a span of its round, and goes to a
// slot of the given number of slots that no span and no other kept state has.
func checkRounds(spans []kernels.Span, rounds []kernels.Round, rows, slots int) error {
	var err error
	for i, r := range rounds {
		if e := kernels.CheckSpans(r.Spans, rows); e != nil {
			err = errors.Join(err, fmt.Errorf("round %d: %w", i, e))
		}
		for n, k := range r.Keeps {
			switch {
			case lastRow(r.Spans, k.From) < 0:
				err = errors.Join(err, fmt.Errorf(
					"round %d: got a state to keep of slot %d, expected one of its spans", i,
					k.From))
			case k.To < 0 || int(k.To) >= slots || lastRow(spans, k.To) >= 0:
				err = errors.Join(err, fmt.Errorf(
					"round %d: got slot %d for a state, expected one of [0, %d) that no span has",
					i, k.To, slots))
			case slices.ContainsFunc(r.Keeps[:n],
				func(other kernels.Keep) bool { return other.From == k.From }):
				err = errors.Join(err, fmt.Errorf(
					"round %d: got two states to keep of slot %d, expected one", i, k.From))
			case keptAt(rounds[:i], r.Keeps[:n], k.To):
				err = errors.Join(err, fmt.Errorf(
					"round %d: got slot %d for two states, expected one", i, k.To))
			}
		}
	}
	return err
}

// keptAt reports whether a slot gets a state after one of the rounds, or is one of more.
func keptAt(rounds []kernels.Round, more []kernels.Keep, slot int32) bool {
	to := func(k kernels.Keep) bool { return k.To == slot }
	return slices.ContainsFunc(more, to) || slices.ContainsFunc(rounds,
		func(r kernels.Round) bool { return slices.ContainsFunc(r.Keeps, to) })
}

// lastRow returns the last row of the span that has a slot, or -1.
func lastRow(spans []kernels.Span, slot int32) int {
	for _, s := range spans {
		if s.Slot == slot {
			return s.Row + s.Rows - 1
		}
	}
	return -1
}

// inRounds runs an operator for the spans of each round, and copies the states to keep. It changes
// the operator's spans and rounds meanwhile.
func inRounds(spans *[]kernels.Span, rounds *[]kernels.Round, run func(),
	states ...kernels.Tensor) {
	allSpans, allRounds := *spans, *rounds
	*rounds = nil
	for _, r := range allRounds {
		*spans = r.Spans
		run()
		for _, k := range r.Keeps {
			for _, state := range states {
				copy(slot(state, k.To), slot(state, k.From))
			}
		}
	}
	*spans, *rounds = allSpans, allRounds
}

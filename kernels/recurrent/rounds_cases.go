package recurrent

import (
	"math/rand/v2"
	"slices"

	"headroom/kernels"
)

// keepingCases returns cases of every operator that keep states inside spans.
func keepingCases() (cases []kernels.Case) {
	rows, pos := []int{12, 1, 3}, []int{0, 9, 1}
	decoded := []int{2}
	for _, c := range slices.Concat(
		convCasesOf([]convShape{
			{kernels.F32, 259, 4, []int{70, 1, 3}, []int{2, 0, 1}, plain},
			{kernels.BF16, 100, 3, []int{70, 2}, []int{0, 5}, linear},
			{kernels.I8, 259, 4, []int{70, 1, 3}, []int{2, 0, 1}, biased},
		}),
		[]kernels.Case{
			gatedDeltaShape{kernels.F32, 1, 2, 40, 24, rows, pos}.toCase(),
			gatedDeltaShape{kernels.BF16, 1, 1, 256, 37, rows, pos}.toCase(),
			gatedDeltaShape{kernels.I8, 1, 2, 40, 24, rows, pos}.toCase(),
			gatedDeltaShape{kernels.F32, 16, 32, 128, 128, decoded, []int{100}}.toCaseAfterConv(4),
			gatedDeltaShape{kernels.I8, 1, 1, 64, 64, rows, pos}.toCaseAfterConv(4),
			ssmShape{kernels.F32, 4, 2, 24, 40, rows, pos}.toCase(),
			ssmShape{kernels.BF16, 1, 1, 37, 256, rows, pos}.toCase(),
			ssmShape{kernels.I8, 4, 2, 24, 40, rows, pos}.toCase(),
		}) {
		cases = append(cases, keeping(c))
	}
	return cases
}

// keeping returns a case that also keeps states inside the spans of c.
func keeping(c kernels.Case) kernels.Case {
	c.Name += "_keeping"
	withoutRounds := c.New
	c.New = func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
		op, _ := withoutRounds(d, r)
		keep := func(spans []kernels.Span, rounds *[]kernels.Round, states ...*kernels.Tensor) {
			var slots int
			*rounds, slots = roundsOf(spans)
			for _, state := range states {
				*state = moreSlots(d, *state, slots)
			}
		}
		var outputs []kernels.Tensor
		var state kernels.Tensor
		switch o := op.(type) {
		case *Conv:
			keep(o.Spans, &o.Rounds, &o.State)
			return o, []kernels.Tensor{o.Out, o.State}
		case *GatedDelta:
			keep(o.Spans, &o.Rounds, &o.State)
			outputs, state = []kernels.Tensor{o.Out}, o.State
		case *ConvGatedDelta:
			keep(o.Spans, &o.Rounds, &o.ConvState, &o.State)
			outputs, state = []kernels.Tensor{o.Out, o.ConvState}, o.State
		case *SSM:
			keep(o.Spans, &o.Rounds, &o.State)
			outputs, state = []kernels.Tensor{o.Out}, o.State
		}
		if state.DType == kernels.F32 { // as in the cases without rounds
			outputs = append(outputs, state)
		}
		return op, outputs
	}
	return c
}

// roundsOf returns rounds that keep the states after the first, the middle and the last row of each
// span, in slots that spansOf does not use, and the number of slots.
func roundsOf(spans []kernels.Span) (rounds []kernels.Round, slots int) {
	slots = len(spans) + 1
	for _, s := range spans {
		ends := slices.Compact([]int{1, (s.Rows + 1) / 2, s.Rows})
		for n, end := range ends {
			if n == len(rounds) {
				rounds = append(rounds, kernels.Round{})
			}
			var piece kernels.Span
			before := 0
			if n > 0 {
				before = ends[n-1]
			}
			piece, s = s.Split(end - before)
			rounds[n].Spans = append(rounds[n].Spans, piece)
			rounds[n].Keeps = append(rounds[n].Keeps,
				kernels.Keep{From: s.Slot, To: int32(slots)})
			slots++
		}
	}
	return rounds, slots
}

// moreSlots returns a state with so many slots, which begins with those of another one.
func moreSlots(d kernels.Device, state kernels.Tensor, slots int) kernels.Tensor {
	t := kernels.NewTensor(d, state.DType, slots, state.Cols)
	for i := range min(slots, state.Rows) {
		copy(slot(t, int32(i)), slot(state, int32(i)))
	}
	return t
}

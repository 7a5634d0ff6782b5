package draft

import (
	"math"
	"testing"
)

func TestHitClasses(t *testing.T) {
	for match, want := range map[int]int{3: 0, 4: 1, 5: 1, 6: 2, 9: 2, 10: 3, 17: 3, 18: 4, 33: 4,
		34: 5, 1000: 5} {
		if got := hitClass(match); got != want {
			t.Errorf("match %d: class %d, expected %d", match, got, want)
		}
	}
}

// linear returns times with which each row after the first costs slope of a pass with one row.
func linear(slope float64, rows ...int) *Times {
	var t Times
	for _, n := range rows {
		t.Observe(n, 1+slope*float64(n-1))
	}
	return &t
}

// always returns hits with which a share of all expected tokens comes.
func always(rate float64) *Hits {
	h := &Hits{window: MaxTokens - firstWindow}
	for c := range h.shares {
		h.shares[c] = share{1e6, 1e6 * rate}
	}
	return h
}

func TestDepth(t *testing.T) {
	for _, c := range []struct {
		name        string
		match, most int
		hits        *Hits
		times       *Times
		want        int
	}{
		{"no match", 0, 8, always(1), linear(0.1, 1), 0},
		{"rows that cost nothing", 5, 8, always(0.5), linear(0, 1, 9), 8},
		{"rows that cost as much as passes", 5, 8, always(0.9), linear(1, 1, 9), 0},
		{"certain tokens", 5, 8, always(1), linear(0.5, 1, 9), 8},
		{"the limit", 5, 3, always(1), linear(0.5, 1, 9), 3},
		{"nothing is left", 5, 0, always(1), linear(0.5, 1, 9), 0},
		{"tokens that never come", 5, 8, always(0), linear(0.01, 1, 9), 0},
		// (1 + 0.5) / (1 + 0.25) = 1.2, (1 + 0.5 + 0.25) / (1 + 0.5) = 1.17
		{"half of them", 5, 8, always(0.5), linear(0.25, 1, 9), 1},
		// rates of 0.4, 0.55, 0.55: 1.4 / 1.1 = 1.27, 1.62 / 1.2 = 1.35, 1.74 / 1.3 = 1.34
		{"little is known", 5, 8, &Hits{}, linear(0.1, 1), 2},
		{"a pass without drafts was never measured", 5, 8, always(1), linear(0.1, 3), 0},
	} {
		round := Round{Rows: 1, Passes: c.times}
		depth, yield, _ := round.LookupDepth(c.match, c.most, c.hits)
		if depth != c.want || (yield > 0) != (depth > 0) {
			t.Errorf("%s: depth %d, yield %v, expected %d", c.name, depth, yield, c.want)
		}
	}
}

// TestDepthInABatch: four sequences share a pass whose rows cost a fifth of it each. One of them
// may still propose, but less than alone: 4.8 / 1.125 = 4.27, 5.44 / 1.25 = 4.35 and 5.95 / 1.375 =
// 4.33 tokens a second.
func TestDepthInABatch(t *testing.T) {
	times := linear(0.2, 1, 2, 4, 8, 12)
	one, four := Round{Rows: 1, Passes: times}, Round{Rows: 4, Passes: times}
	alone, _, _ := one.LookupDepth(20, 8, always(0.8))
	shared, _, _ := four.LookupDepth(20, 8, always(0.8))
	if alone != 4 || shared != 2 {
		t.Errorf("depth %d alone, %d beside three others", alone, shared)
	}
}

func TestTimes(t *testing.T) {
	var times Times
	if times.Seconds(3) != 0 || times.ratio(1, 2) != 1.2 {
		t.Error("nothing is known, but there is a figure")
	}
	times.Observe(1, 2)
	times.Observe(5, 4)
	for rows, want := range map[int]float64{1: 2, 2: 2.5, 3: 3, 5: 4, 10: 6, MaxRows + 9: 4 * 6.9} {
		if got := times.Seconds(rows); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d rows: %v s, expected %v", rows, got, want)
		}
	}
	times.Observe(5, 4)
	times.Observe(5, 4)
	times.Observe(5, 104) // another program ran
	if got := times.Seconds(5); got != 9 {
		t.Errorf("%v s after a slow pass, expected 9", got)
	}
	if got := times.ratio(1, 4); got != 4.5 {
		t.Errorf("ratio %v, expected 4.5", got)
	}
	for range oldPasses + 1 {
		times.Observe(1, 2)
	}
	if got := times.ratio(1, 4); got != 2.75 {
		t.Errorf("ratio %v when the measurement is old, expected 2.75", got)
	}
	times.Observe(3, 400) // a GPU has prepared kernels
	times.Observe(3, 40)
	if got := times.ratio(1, 2); got != 20 {
		t.Errorf("ratio %v, expected 20", got)
	}
	for range unsurePasses + 1 {
		times.Tick()
	}
	if got := times.ratio(1, 2); got != 1.2 {
		t.Errorf("ratio %v when the only measurement is old, expected what is assumed", got)
	}
}

// TestLongestMeasured: passes of more than MaxRows rows are not measured, so nothing is proposed
// for them. Otherwise drafts would seem to cost nothing from there on.
func TestLongestMeasured(t *testing.T) {
	times := linear(0, 1, MaxRows) // rows that cost nothing
	for _, c := range []struct{ rows, want int }{{1, 8}, {56, 8}, {60, 4}, {62, 0}, {64, 0},
		{128, 0}} {
		// A step of the drafter takes hardly any time.
		round := Round{Rows: c.rows, Passes: times, Drafter: &Times{}, Assumed: 1e-6}
		if d, _, _ := round.LookupDepth(40, 8, always(0.9)); d != c.want {
			t.Errorf("%d rows: %d tokens looked up, expected %d", c.rows, d, c.want)
		}
		if d, _ := round.ChainDepth(&Chain{}, 8, 1, 0); d != c.want {
			t.Errorf("%d rows: %d tokens drafted, expected %d", c.rows, d, c.want)
		}
		if d, _ := round.BlockDepth(&Chain{}, 8, 0); d != c.want {
			t.Errorf("%d rows: a block of %d, expected %d", c.rows, d, c.want)
		}
	}
}

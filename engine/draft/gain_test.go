package draft

import (
	"math"
	"testing"
)

func TestCost(t *testing.T) {
	// Passes of 1, 2 and 5 rows take 1, 1.2 and 1.8 seconds.
	times := linear(0.2, 1, 2, 5)
	for _, c := range []struct {
		name                string
		rows, drafts        int
		more, took          float64
		wantCost, wantPlain float64
	}{
		{"four drafts", 5, 4, 0, 0, 0.8, 1},
		{"a pass that took twice as long as others", 5, 4, 0.5, 3.6, 2.1, 2},
		{"their steps before the pass", 5, 4, 0.5, 0, 1.3, 1},
		{"two answers, one with drafts", 5, 3, 0, 0, 0.6, 1.2},
		{"rows that were not measured", 4, 3, 0, 0, 0.6, 1},
		{"a trial", 1, 0, 0.1, 0, 0.1, 1},
		{"only a prompt", 0, 0, 0.5, 0, 0, 0},
	} {
		got := times.Cost(c.rows, c.drafts, c.more, c.took)
		if math.Abs(got.Drafts-c.wantCost) > 1e-9 || math.Abs(got.Plain-c.wantPlain) > 1e-9 {
			t.Errorf("%s: %+v, expected %v and %v", c.name, got, c.wantCost, c.wantPlain)
		}
	}
	// Passes that were measured while the computer was busy: one of 1 row seems to take longer than
	// one of 5. With all four drafts right, five tokens came in the time of one pass, not more.
	busy := linear(0, 1, 5)
	busy.seconds[1] = 3
	if got := busy.Cost(5, 4, 0, 0.5); got.Drafts != 0 || got.Plain != 0.5 {
		t.Errorf("a busy computer: %+v", got)
	}
	if got := (&Times{}).Cost(5, 4, 0, 1); got != (Cost{}) {
		t.Errorf("nothing was measured: %+v", got)
	}
}

func TestSpeedup(t *testing.T) {
	for _, c := range []struct{ seconds, saved, want float64 }{
		{2, 1, 1.5}, {2, 0, 1}, {2, -0.5, 0.75}, {2, -3, 0}, {0, 0, 0}, {0, 1, 0},
	} {
		if got := Speedup(c.seconds, c.saved); got != c.want {
			t.Errorf("%v s, of which %v saved: %v, expected %v", c.seconds, c.saved, got, c.want)
		}
	}
}

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
		more                float64
		wantCost, wantPlain float64
	}{
		{"four drafts", 5, 4, 0, 0.8, 1},
		{"their steps before the pass", 5, 4, 0.5, 1.3, 1},
		{"two answers, one with drafts", 5, 3, 0, 0.6, 1.2},
		{"rows that were not measured", 4, 3, 0, 0.6, 1},
		{"a trial", 1, 0, 0.1, 0.1, 1},
		{"only a prompt", 0, 0, 0.5, 0, 0},
	} {
		got := times.Cost(c.rows, c.drafts, c.more)
		if math.Abs(got.Drafts-c.wantCost) > 1e-9 || got.Plain != c.wantPlain {
			t.Errorf("%s: %+v, expected %v and %v", c.name, got, c.wantCost, c.wantPlain)
		}
	}
	if got := (&Times{}).Cost(5, 4, 0); got != (Cost{}) {
		t.Errorf("nothing was measured: %+v", got)
	}
}

func TestGained(t *testing.T) {
	for _, c := range []struct{ seconds, saved, want float64 }{
		{2, 1, 1.5}, {2, 0, 1}, {2, -0.5, 0.75}, {2, -3, 0}, {0, 0, 0}, {0, 1, 0},
	} {
		if got := Gained(c.seconds, c.saved); got != c.want {
			t.Errorf("%v s, of which %v saved: %v, expected %v", c.seconds, c.saved, got, c.want)
		}
	}
}

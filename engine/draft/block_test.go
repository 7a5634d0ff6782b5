package draft

import "testing"

// blockRound returns a round of one row in which a pass takes 1 s and a row more 0.1 s. A step of
// the drafter with r rows takes 0.1 s and 0.01 s for each.
func blockRound() *Round {
	r := &Round{Rows: 1, Passes: new(Times), Drafter: new(Times)}
	for rows := 1; rows <= MaxRows; rows++ {
		for range sureCount {
			r.Passes.Observe(rows, 1+0.1*float64(rows-1))
			r.Drafter.Observe(rows, 0.1+0.01*float64(rows))
		}
	}
	return r
}

// observed returns what is known after so many drafts, of which the given share is right.
func observed(share float64) *Chain {
	c := new(Chain)
	for i := range 400 {
		c.Observe(share, float64(i%10) < 10*share)
	}
	return c
}

// TestBlockDepth: the surer a drafter is, the farther it goes, and one that is mostly wrong drafts
// nothing. Other sequences in the step make it cheaper.
func TestBlockDepth(t *testing.T) {
	r := blockRound()
	depth := func(share float64, most, rows int) int {
		d, speed := r.BlockDepth(observed(share), most, rows)
		if (d > 0) != (speed > r.Speed(0, 0, 0)*gain) {
			t.Errorf("share %g: depth %d at a speed of %g", share, d, speed)
		}
		return d
	}
	// After wrong drafts alone, a fifth is still expected to be right. A draft then yields 0.2
	// tokens for 0.1 s and a step of five rows, which takes 0.15 s alone and 0.05 s beside others.
	if alone, beside := depth(0, 8, 0), depth(0, 8, 9); alone != 0 || beside != 1 {
		t.Errorf("wrong so far: depth %d alone and %d beside others, expected 0 and 1", alone,
			beside)
	}
	if half, sure := depth(0.5, 8, 0), depth(1, 8, 0); half < 1 || half > 4 || sure != 8 {
		t.Errorf("depth %d at a half and %d if always right, expected 1 to 4 and 8", half, sure)
	}
	if d := depth(1, 3, 0); d != 3 {
		t.Errorf("depth %d, expected no more than 3", d)
	}
	if d, _ := new(Round).withNothingKnown().BlockDepth(observed(1), 8, 0); d != 0 {
		t.Errorf("before a pass was measured: depth %d, expected 0", d)
	}
}

func (r *Round) withNothingKnown() *Round {
	r.Rows, r.Passes, r.Drafter = 1, new(Times), new(Times)
	return r
}

// TestTakeBlock: drafts are verified up to the first improbable one, or beyond it if those after it
// make up for it.
func TestTakeBlock(t *testing.T) {
	r, c := blockRound(), new(Chain)
	for _, x := range []struct {
		probabilities []float64
		drafts        int
	}{{nil, 0}, {[]float64{0.05, 0.9}, 0}, {[]float64{1, 1, 0.05, 1}, 2}, {[]float64{1, 1, 1}, 3},
		{[]float64{0.9, 0.3, 1, 1}, 4}} {
		drafts, right := r.TakeBlock(c, x.probabilities)
		if drafts != x.drafts || right > float64(drafts) || drafts > 0 && right <= 0 {
			t.Errorf("%g: %d drafts, %g right, expected %d", x.probabilities, drafts, right,
				x.drafts)
		}
	}
}

func TestRoom(t *testing.T) {
	if a, b := Room(2, 8), Room(5, 8); a != 5 || b != 8 {
		t.Errorf("got %d and %d, expected 5 and 8", a, b)
	}
}

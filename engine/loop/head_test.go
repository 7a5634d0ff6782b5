package loop

import "testing"

// TestChooseHead: three steps with the whole head are measured, then three with a list. After that,
// what is preferred is taken, but for one step in 256.
func TestChooseHead(t *testing.T) {
	for _, prefer := range []bool{true, false} {
		var h heads
		others := 0
		for i := range 2000 {
			h.choose(prefer)
			switch want := prefer; {
			case i < firstSteps && h.listed, i >= firstSteps && i < 2*firstSteps && !h.listed:
				t.Fatalf("step %d has a list: %t", i, h.listed)
			case i >= 2*firstSteps && h.listed != want:
				others++
			}
			h.observeHead()
		}
		if others != 7 {
			t.Errorf("prefers a list %t: %d of 2,000 steps are of the other kind, expected 7",
				prefer, others)
		}
	}
}

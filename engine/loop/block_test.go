package loop

import (
	"testing"

	"headroom/engine/models"
	"headroom/engine/sched"
)

// TestFitsTrial: a draft on trial needs a row of the step, and its position a page. A drafter of
// single tokens needs neither.
func TestFitsTrial(t *testing.T) {
	c := &chains{block: &models.Block{Drafts: 7}}
	work := func(to, pages int) *sched.Work {
		return &sched.Work{From: to - 1, To: to, Seq: &sched.Sequence{Pages: make([]int32, pages)}}
	}
	left := 2
	for _, x := range []struct {
		to, pages int
		fits      bool
	}{{32, 1, false}, {31, 1, true}, {33, 2, false}} { // the last row of two is taken
		if got := c.fitsTrial(work(x.to, x.pages), &left); got != x.fits {
			t.Errorf("%+v: got %t", x, got)
		}
	}
	left = 0
	if !new(chains).fitsTrial(work(32, 1), &left) {
		t.Error("a drafter of single tokens has no trial")
	}
}

package loop

import (
	"slices"
	"testing"

	"headroom/engine/batch"
	"headroom/engine/draft"
	"headroom/engine/sched"
)

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

// TestShortlistOfSeveral: conversations of one owner share their tokens. Those of several owners
// share none, and neither does a private one with any other.
func TestShortlistOfSeveral(t *testing.T) {
	short := batch.Shortlist{Vocab: 1000, First: 10, Last: 10}
	one := func(owner string, private bool, token int32) chain {
		r := &request{Request: Request{Owner: owner, Private: private}}
		r.list = draft.NewList(short, []int32{token})
		return chain{work: &sched.Work{Seq: &sched.Sequence{Owner: r}}}
	}
	for name, c := range map[string]struct {
		active []chain
		want   []int32
	}{
		"one":     {[]chain{one("a", false, 100)}, []int32{100}},
		"private": {[]chain{one("a", true, 100)}, []int32{100}},
		"two of one owner": {[]chain{one("a", false, 100), one("a", false, 101)},
			[]int32{100, 101}},
		"two owners":       {[]chain{one("a", false, 100), one("b", false, 101)}, nil},
		"a private first":  {[]chain{one("a", true, 100), one("a", false, 101)}, nil},
		"a private second": {[]chain{one("a", false, 100), one("a", true, 101)}, nil},
	} {
		h := heads{short: &short, listed: true}
		if got := h.shortlist(c.active).Between; !slices.Equal(got, c.want) {
			t.Errorf("%s: the list has %d, expected %d", name, got, c.want)
		}
	}
}

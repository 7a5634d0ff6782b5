package sched

// Tests of the memory of drafts. A page has 4 positions.

import "testing"

// draftTokens appends n drafts to q.
func draftTokens(q *Sequence, n int) {
	q.Tokens = append(q.Tokens, make([]int32, n)...)
	q.Drafts = n
}

// drafting returns a scheduler whose steps have up to 4 drafts.
func drafting(pages, chunk int) *Scheduler {
	return New(Options{NoPrefixes: true, Pages: pages, PageTokens: 4, Slots: 3, ChunkTokens: chunk,
		MixedChunkTokens: chunk, DraftTokens: 4})
}

// verify plans a step, carries it out, and accepts the first right drafts of each sequence.
func verify(s *Scheduler, right int) (work []Work) {
	work = s.Next()
	for _, w := range work {
		s.Advance(w)
		w.Seq.Tokens = append(w.Seq.Tokens, 0)
		if w.Drafts == 0 {
			continue
		}
		for n := range min(right, w.Drafts) {
			s.Accept(w, n+1)
			w.Seq.Tokens = append(w.Seq.Tokens, 0)
		}
		s.EndDrafts(w)
	}
	return work
}

// TestDraftsComeLast: the last free page is for the token that b decodes and not for the drafts of
// a, though a comes first. The same is true if c waits for it.
func TestDraftsComeLast(t *testing.T) {
	s := drafting(3, 8)
	a, b := add(s, "a", 3, 0), add(s, "b", 4, 0)
	steps(t, s, "a[0,3)+ b[0,4)+")
	draftTokens(a, 4)
	verify(s, 0)
	if s.Preemptions != 0 || b.Computed != 5 || a.Computed != 4 {
		t.Errorf("%d preemptions, a has %d tokens and b %d, expected none, 4 and 5",
			s.Preemptions, a.Computed, b.Computed)
	}

	s = drafting(2, 8)
	a = add(s, "a", 3, 0)
	steps(t, s, "a[0,3)+")
	c := add(s, "c", 3, 0)
	draftTokens(a, 4)
	verify(s, 0)
	if c.Computed != 3 {
		t.Errorf("c has %d tokens, expected 3: drafts took its page", c.Computed)
	}
}

// TestDraftsGiveBack: pages for wrong drafts are free after the step.
func TestDraftsGiveBack(t *testing.T) {
	for right, want := range []int{1, 2, 2, 2, 2} { // of [3, 8)
		s := drafting(9, 8)
		a := add(s, "a", 3, 0)
		steps(t, s, "a[0,3)+")
		draftTokens(a, 4)
		if work := verify(s, right); work[0].Drafts != 4 || work[0].To != 8 {
			t.Fatalf("planned %+v, expected 4 drafts", work[0])
		}
		counts(t, s, 1, 0, want)
		checkInvariants(t, s)
	}
}

// TestDraftsLeaveRoom: drafts do not take all rows of short passes, so a prompt is computed.
func TestDraftsLeaveRoom(t *testing.T) {
	s := drafting(20, 4)
	a := add(s, "a", 2, 0)
	steps(t, s, "a[0,2)+")
	b := add(s, "b", 4, 0)
	for range 2 {
		draftTokens(a, 4)
		verify(s, 4)
	}
	if b.Computed != 4 {
		t.Errorf("%d of 4 tokens of b are computed, expected all", b.Computed)
	}
}

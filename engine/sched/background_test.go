package sched

import "testing"

// later adds a background sequence.
func later(s *Scheduler, name string, n int) *Sequence {
	q := &Sequence{Tokens: make([]int32, n), Background: true, Slot: -1, Owner: name}
	s.Add(q)
	return q
}

// TestBackgroundWaits: background sequences run alone, in chunks of a mixed step, and stand still
// while another one runs.
func TestBackgroundWaits(t *testing.T) {
	s := small(20)
	later(s, "x", 5)
	steps(t, s, "x[0,3)", "x[3,5)+", "x[5,6)+")
	a := add(s, "a", 3, 0)
	steps(t, s, "a[0,3)+", "a[3,4)+", "a[4,5)+")
	s.Remove(a, false)
	steps(t, s, "x[6,7)+")
}

// TestBackgroundChunks: steps of the background alone may have a smaller limit. It is not that of
// others.
func TestBackgroundChunks(t *testing.T) {
	s := small(20)
	s.SetBackgroundChunkTokens(2)
	later(s, "x", 5)
	steps(t, s, "x[0,2)", "x[2,4)", "x[4,5)+")
	add(s, "a", 3, 0)
	steps(t, s, "a[0,3)+")
}

// TestBackgroundShares: when the owner allows it, background rows come beside decoding ones, but
// not beside prompts.
func TestBackgroundShares(t *testing.T) {
	s := small(20)
	later(s, "x", 1)
	steps(t, s, "x[0,1)+")
	s.ShareSteps(true)
	add(s, "a", 3, 0)
	steps(t, s, "a[0,3)+", "a[3,4)+ x[1,2)+")
	s.ShareSteps(false)
	steps(t, s, "a[4,5)+")
}

// TestBackgroundGivesItsSlot: another sequence preempts the newest background sequence, which then
// waits behind all others, whatever their priority.
func TestBackgroundGivesItsSlot(t *testing.T) {
	s := small(20)
	later(s, "x", 2)
	later(s, "y", 1)
	steps(t, s, "x[0,2)+ y[0,1)+")
	a := add(s, "a", 2, -9)
	steps(t, s, "a[0,2)+")
	counts(t, s, 2, 1, 2)
	if s.Preemptions != 1 {
		t.Errorf("%d preemptions, expected 1: that of y", s.Preemptions)
	}
	b := add(s, "b", 2, 0)
	steps(t, s, "a[2,3)+ b[0,2)+")
	s.Remove(a, false)
	s.Remove(b, false)
	steps(t, s, "x[0,3)+", "x[3,4)+ y[0,2)+")
}

// TestBackgroundGivesItsPages: another sequence does not wait for pages of the background.
func TestBackgroundGivesItsPages(t *testing.T) {
	s := small(3)
	later(s, "x", 8)
	steps(t, s, "x[0,3)", "x[3,6)", "x[6,8)+")
	a := add(s, "a", 8, 0)
	steps(t, s, "a[0,8)+", "a[8,9)+")
	s.Remove(a, false)
	steps(t, s, "x[0,3)", "x[3,6)", "x[6,9)+")
}

// TestBackgroundGoesOn: what a preempted background sequence has computed stays cached.
func TestBackgroundGoesOn(t *testing.T) {
	s := New(Options{Pages: 20, PageTokens: 4, Slots: 1, ChunkTokens: 16, MixedChunkTokens: 8})
	later(s, "x", 9)
	steps(t, s, "x[0,8)", "x[8,9)+", "x[9,10)+")
	a := &Sequence{Tokens: []int32{7, 7}, Slot: -1, Owner: "a"}
	s.Add(a)
	steps(t, s, "a[0,2)+")
	s.Remove(a, false)
	steps(t, s, "x[10,11)+")
}

// TestNoneFollowsTheBackground: a sequence does not wait for the prefix that a background sequence
// computes, which may stand still.
func TestNoneFollowsTheBackground(t *testing.T) {
	s := New(Options{Pages: 40, PageTokens: 4, Slots: 3, ChunkTokens: 8, MixedChunkTokens: 4})
	add(s, "b", 1, 0)
	later(s, "x", 30)
	s.ShareSteps(true)
	steps(t, s, "b[0,1)+", "b[1,2)+ x[0,4)")
	s.ShareSteps(false)
	add(s, "a", 30, 0)
	steps(t, s, "b[2,3)+ a[4,8)")
}

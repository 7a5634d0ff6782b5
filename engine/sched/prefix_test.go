package sched

// Tests of prefix hits, with expectations worked out by hand. A page has 4 positions, and the
// tokens of a sequence count up from 1.

import (
	"slices"
	"testing"

	"headroom/engine/prefix"
)

// remembering returns a scheduler with a prefix tree, 10 pages, 2 slots and 2 state slots.
func remembering(recurrent bool) *Scheduler {
	return New(Options{Pages: 10, PageTokens: 4, Slots: 2, ChunkTokens: 8, MixedChunkTokens: 3,
		Recurrent: recurrent, StateSlots: 2})
}

// counting queues a sequence with the tokens 1 to n-1, then last. States are kept at keep.
func counting(s *Scheduler, name string, n int, last int32, keep ...int) *Sequence {
	q := &Sequence{Slot: -1, Owner: name, Keep: keep}
	for i := range n {
		q.Tokens = append(q.Tokens, int32(i+1))
	}
	q.Tokens[n-1] = last
	s.Add(q)
	return q
}

func TestPrefixOfAttention(t *testing.T) {
	s := remembering(false)
	a := counting(s, "a", 7, 7)
	steps(t, s, "a[0,7)+") // a generates token 0
	s.Remove(a, true)      // tokens 1 to 4 are cached in page 0, 5 to 7 in page 1
	b := counting(s, "b", 7, 99)
	work := s.Next()
	// 6 tokens are cached. The first page is shared, and the second is copied for 2 positions.
	if len(work) != 1 || work[0].From != 6 || work[0].To != 7 || b.Cached != 6 ||
		work[0].Restore == nil ||
		work[0].Restore.FromPage != 1 || work[0].Restore.ToPage != b.Pages[1] || b.Pages[0] != 0 ||
		b.Pages[1] == 1 || work[0].Restore.FromSlot != -1 {
		t.Errorf("wrong prefix: got %+v (restore %+v) with %d cached and pages %v",
			work, work[0].Restore, b.Cached, b.Pages)
	}
	s.Advance(work[0])
	checkInvariants(t, s)
	// All 4 tokens are cached, but the last one must be computed for its logits.
	c := counting(s, "c", 4, 4)
	if work = s.Next(); work[len(work)-1].From != 3 || c.Cached != 3 {
		t.Errorf("got %+v with %d cached, expected the last token alone", work, c.Cached)
	}
	checkInvariants(t, s)
}

// TestPlaceholdersAreNotCached computes a sequence again that was preempted while its last token
// was a placeholder. The cached prefix must end before the placeholder until its token is known.
func TestPlaceholdersAreNotCached(t *testing.T) {
	s := remembering(false)
	a := counting(s, "a", 7, -1)
	for _, w := range s.Next() {
		s.Advance(w)
	}
	if a.Computed != 7 {
		t.Fatalf("%d tokens are computed, expected all 7", a.Computed)
	}
	s.Leaves(func(l prefix.Leaf) {
		if !slices.Equal(l.Tokens, []int32{1, 2, 3, 4, 5, 6}) {
			t.Errorf("tokens %v are cached, expected 1 to 6", l.Tokens)
		}
	})
	a.Tokens[6] = 7
	s.Remove(a, true)
	if known, _ := s.Known(counting(s, "b", 8, 8)); known != 7 {
		t.Errorf("%d tokens are cached, expected 7", known)
	}
}

func TestPrefixOfRecurrence(t *testing.T) {
	s := remembering(true)
	a := counting(s, "a", 7, 7, 2, 5)
	w := s.Next() // one pass; the two kept states are in the slots after those of running sequences
	if len(w) != 1 || w[0].To != 7 || !slices.Equal(w[0].Keeps, []Keep{{2, 3}, {5, 2}}) {
		t.Fatalf("got %+v, expected [0,7) with states kept after 2 and 5", w)
	}
	s.Advance(w[0])
	s.Remove(a, false)
	b := counting(s, "b", 7, 99) // shares 6 tokens, but there are states only after 2 and 5
	w = s.Next()
	if len(w) != 1 || w[0].From != 5 || b.Cached != 5 || w[0].Restore.FromSlot < 2 ||
		w[0].Restore.ToSlot != b.Slot {
		t.Errorf("got %+v (restore %+v) with %d cached, expected to resume after 5", w,
			w[0].Restore, b.Cached)
	}
	checkInvariants(t, s)
	s.Remove(b, false)
	c := counting(s, "c", 4, 99)
	if w = s.Next(); w[0].From != 2 || c.Cached != 2 {
		t.Errorf("got %+v with %d cached, expected to resume after 2", w, c.Cached)
	}
}

// TestEvictionComesFirst checks that cached prefixes are evicted before a sequence waits or is
// preempted.
func TestEvictionComesFirst(t *testing.T) {
	s := remembering(false)
	s.Remove(counting(s, "gone", 3, 3), true) // never ran, so nothing is cached
	a := counting(s, "a", 8, 8)
	steps(t, s, "a[0,8)+")
	s.Remove(a, true)
	if _, _, used, kept := s.Counts(); used.Total() != 0 || kept.Total() != 2 {
		t.Errorf("%d pages in use and %d kept, expected 0 and 2", used, kept)
	}
	add(s, "b", 39, 0) // shares no tokens, and needs all 10 pages
	steps(t, s, "b[0,8)", "b[8,16)", "b[16,24)", "b[24,32)", "b[32,39)+")
	if _, _, used, kept := s.Counts(); used.Total() != 10 || kept.Total() != 0 ||
		s.Preemptions != 0 {
		t.Errorf("%d pages in use, %d kept, %d preemptions, expected 10, 0, 0", used, kept,
			s.Preemptions)
	}
}

package sched

// Tests of followers, of promotions and of the bounds of the cache, with expectations worked out by
// hand. A page has 4 positions, so following must save at least 8 tokens.

import (
	"slices"
	"testing"

	"headroom/engine/prefix"
)

func TestFollowersWait(t *testing.T) {
	for _, recurrent := range []bool{false, true} {
		s := New(Options{Pages: 40, PageTokens: 4, Slots: 3, ChunkTokens: 16, MixedChunkTokens: 8,
			Recurrent: recurrent, StateSlots: 3})
		a := counting(s, "a", 20, 20)
		b := counting(s, "b", 18, 99)       // shares 17 tokens with a
		steps(t, s, "a[0,16)", "a[16,20)+") // the second step had room for b
		if b.running || !slices.Equal(a.Keep, []int{17}) {
			t.Fatalf("recurrent %t: the follower runs: %t, its leader keeps its state at %v, "+
				"expected false and [17]", recurrent, b.running, a.Keep)
		}
		steps(t, s, "a[20,21)+ b[17,18)+")
		if b.Cached != 17 {
			t.Errorf("recurrent %t: %d tokens cached, expected 17", recurrent, b.Cached)
		}
	}
}

// TestFollowerStartsAlone checks that a sequence whose leader is gone, or that shares too little,
// starts without waiting.
func TestFollowerStartsAlone(t *testing.T) {
	s := New(Options{Pages: 40, PageTokens: 4, Slots: 3, ChunkTokens: 8, MixedChunkTokens: 8})
	a := counting(s, "a", 20, 20)
	b := counting(s, "b", 15, 99)
	steps(t, s, "a[0,8)")
	s.Remove(a, false)
	steps(t, s, "b[8,15)+") // the tokens that a has computed are cached
	if b.Cached != 8 {
		t.Errorf("%d tokens cached, expected 8", b.Cached)
	}
	s = New(Options{Pages: 40, PageTokens: 4, Slots: 3, ChunkTokens: 8, MixedChunkTokens: 8})
	counting(s, "a", 6, 6)
	counting(s, "b", 8, 99) // shares 5 tokens
	steps(t, s, "a[0,6)+ b[0,2)")
}

func TestPreferPrefill(t *testing.T) {
	s := New(Options{Pages: 40, PageTokens: 4, Slots: 2, ChunkTokens: 8, MixedChunkTokens: 2,
		NoPrefixes: true, PreferPrefill: true})
	add(s, "a", 4, 0)
	steps(t, s, "a[0,4)+", "a[4,5)+")
	add(s, "b", 10, 0)
	// a stalls while a slot is free for prompts: b decodes only when its prompt is complete.
	steps(t, s, "b[0,8)", "a[5,6)+ b[8,10)+", "a[6,7)+ b[10,11)+")
}

// TestFetch checks that other sequences overtake one whose prefix is being read from disk, and that
// it then resumes after the prefix.
func TestFetch(t *testing.T) {
	s := remembering(true)
	a := counting(s, "a", 11, 11)
	a.Stored = 9
	steps(t, s, "")
	p := s.Promotions()
	if len(p) != 1 || p[0].Seq != a || p[0].From != 0 || len(p[0].Pages) != 3 || p[0].Slot < 2 ||
		len(p[0].Tokens) != 9 || !a.StorePending {
		t.Fatalf("promotions %+v, expected one of 9 tokens for a, with 3 pages and a state slot", p)
	}
	counting(s, "c", 12, 99) // begins with the prefix that is being read, so it waits too
	add(s, "b", 3, 0)
	steps(t, s, "b[0,3)+")
	s.Promoted(p[0], true)
	steps(t, s, "b[3,4)+ a[9,11)+")
	if a.Cached != 9 || len(s.Promotions()) != 0 {
		t.Errorf("%d tokens cached, expected 9 and no more promotions", a.Cached)
	}
}

// TestFetchAfterKnown checks that full pages in memory are not read again, but the partial last one
// is.
func TestFetchAfterKnown(t *testing.T) {
	s := remembering(true)
	a := counting(s, "a", 7, 7, 6)
	steps(t, s, "a[0,7)+")
	s.Remove(a, false)
	b := counting(s, "b", 20, 99)
	b.Stored = 15
	steps(t, s, "")
	p := s.Promotions()
	if len(p) != 1 || p[0].From != 4 || len(p[0].Pages) != 4 {
		t.Fatalf("promotions %+v, expected one from position 4", p)
	}
	s.Promoted(p[0], false) // the disk has failed, so b resumes after its prefix in memory
	steps(t, s, "b[6,14)")
	if b.Cached != 6 {
		t.Errorf("%d tokens cached, expected 6", b.Cached)
	}
}

// TestHotBounds checks that the cache of ended sequences stays within its bounds.
func TestHotBounds(t *testing.T) {
	for _, o := range []Options{{HotBytes: 2, PageBytes: prefix.Sizes{Rest: 1}},
		{HotConversations: 1}} {
		o.Pages, o.PageTokens, o.Slots, o.ChunkTokens, o.MixedChunkTokens = 20, 4, 2, 8, 8
		s := New(o)
		for i := range int32(3) {
			q := &Sequence{Tokens: []int32{1, 2, 3, 4, 10 + i, 6, 7, 8}, Slot: -1, Owner: "q"}
			s.Add(q)
			step(s)
			s.Remove(q, true)
		}
		if _, _, used, kept := s.Counts(); used.Total() != 0 || kept.Total() != 2 {
			t.Errorf("%+v: %d pages in use and %d kept, expected 0 and 2", o, used, kept)
		}
	}
}

// TestSetGrowth: what pages and states may grow by together is no more than allowed, and each gets
// a share. Without start pages or states, pages get everything.
func TestSetGrowth(t *testing.T) {
	o := Options{Pages: 40, StartPages: 8, StartTokens: 4, PageTokens: 4, Slots: 2, Recurrent: true,
		StateSlots: 9, GuaranteedStates: 2, Guaranteed: prefix.Amount{Start: 1, Rest: 3},
		PageBytes: prefix.Sizes{Start: 2, Rest: 1}, ChunkTokens: 8, MixedChunkTokens: 8}
	s := New(o)
	s.SetGrowth(Growth{ConversationBytes: 1*2 + 3, CacheBytes: 24}, 4)
	if got, want := s.pool.Free(), (prefix.Amount{Start: 1 + 4, Rest: 3 + 8}); got != want {
		t.Errorf("%+v pages are free, expected %+v", got, want)
	}
	if got := s.tree.FreeSlots(); got != 2+2 {
		t.Errorf("%d states are free, expected 4", got)
	}
	if got := s.PromisedSlots(); got != 2+2 {
		t.Errorf("%d slots are promised at rest, expected 4", got)
	}
	for range 4 { // more states than are guaranteed use up no slot of a sequence
		s.tree.TakeSlot()
	}
	if got := s.PromisedSlots(); got != 2 {
		t.Errorf("%d slots are promised once 4 states are kept, expected 2", got)
	}
	o.StartPages, o.StartTokens, o.Guaranteed.Start, o.StateSlots, o.Recurrent = 0, 0, 0, 0, false
	s = New(o)
	s.SetGrowth(Growth{ConversationBytes: 3, CacheBytes: 24}, 4)
	if got, want := s.pool.Free(), (prefix.Amount{Rest: 3 + 24}); got != want {
		t.Errorf("%+v pages are free, expected %+v", got, want)
	}
}

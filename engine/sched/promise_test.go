package sched

import (
	"math/rand/v2"
	"testing"

	"headroom/engine/prefix"
)

// TestPromises: with random requests and changing limits, a sequence that was granted memory
// becomes as long as it was granted, even if the limit falls to nothing meanwhile. No more pages
// are written than was allowed, and at rest only those of AtRest are promised.
func TestPromises(t *testing.T) {
	waited, cut := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		o := Options{PageTokens: 32, Slots: 3, ChunkTokens: 512, MixedChunkTokens: 512,
			Pages: 400, Guaranteed: prefix.Amount{Rest: 128}, AtRest: prefix.Amount{Rest: 40},
			PageBytes: prefix.Sizes{Rest: 1}}
		if seed%2 == 1 {
			o.StartPages, o.StartTokens, o.PageBytes.Start = 16, 128, 2
			o.Guaranteed = prefix.Amount{Start: 4, Rest: 124}
			o.AtRest = prefix.Amount{Start: 4, Rest: 36}
		}
		s := New(o)
		s.SetGrowth(Growth{}, 0)
		allowed := s.pool.Most()
		var live []*Sequence
		most := map[*Sequence]int{}
		for step := 0; step < 400 || len(live) > 0; step++ {
			if step > 20_000 {
				t.Fatalf("seed %d: %d sequences never end", seed, len(live))
			}
			if step < 400 && len(live) < 6 && r.IntN(4) == 0 {
				q := &Sequence{Tokens: make([]int32, 1+r.IntN(3000)), Slot: -1,
					Priority: r.IntN(2)}
				for i := range q.Tokens {
					q.Tokens[i] = int32(r.IntN(3))
				}
				q.Most = min(len(q.Tokens)+1+r.IntN(2000), 4096)
				live, most[q] = append(live, q), q.Most
				s.Add(q)
			}
			if r.IntN(5) == 0 { // in the end all memory is free
				g := Growth{ConversationBytes: int64(r.IntN(2) * r.IntN(150))}
				if step >= 400 && r.IntN(8) == 0 {
					g = Growth{ConversationBytes: 1000, CacheBytes: 1000}
				}
				s.SetGrowth(g, 0)
				allowed = larger(allowed, s.pool.Most())
			}
			for _, w := range s.Next() {
				s.Advance(w)
				if w.To == len(w.Seq.Tokens) {
					w.Seq.Tokens = append(w.Seq.Tokens, 1)
				}
			}
			for i := len(live) - 1; i >= 0; i-- {
				q := live[i]
				if q.LacksMemory {
					waited++
				}
				if q.granted && !s.pool.Most().Covers(s.pagesOf(q, q.Most)) {
					t.Fatalf("seed %d, step %d: the promise of %d tokens is broken", seed, step,
						q.Most)
				}
				if q.granted && len(q.Tokens) > q.Most { // it has all its tokens
					if q.Most < most[q] {
						cut++
						if q.Most < s.o.StartTokens {
							t.Errorf("seed %d: it ends after %d tokens", seed, q.Most)
						}
					}
					s.Remove(q, true)
					live = append(live[:i], live[i+1:]...)
				}
			}
			if peak := s.pool.Peak(); !allowed.Covers(peak) {
				t.Fatalf("seed %d: %+v pages were written, %+v were allowed", seed, peak, allowed)
			}
		}
		if got := s.Promised(); got != o.AtRest {
			t.Errorf("seed %d: at rest %+v is promised", seed, got)
		}
	}
	if waited == 0 || cut == 0 {
		t.Errorf("%d waits and %d shorter answers", waited, cut)
	}
}

// TestLacksMemory: a sequence that lacks memory waits, those that fit go first, and an answer is as
// long as there is memory for.
func TestLacksMemory(t *testing.T) {
	o := Options{PageTokens: 32, Slots: 4, ChunkTokens: 9000, MixedChunkTokens: 9000, Pages: 300,
		Guaranteed: prefix.Amount{Rest: 256}, AtRest: prefix.Amount{Rest: 64},
		PageBytes: prefix.Sizes{Rest: 100}, NoPrefixes: true}
	s := New(o)
	s.SetGrowth(Growth{}, 0)
	long := &Sequence{Tokens: make([]int32, 4000), Most: 8192, Slot: -1}
	short := &Sequence{Tokens: make([]int32, 500), Most: 8192, Slot: -1}
	s.Add(long)
	s.Add(short)
	s.Next()
	if !long.LacksMemory || long.Slot >= 0 || short.Slot < 0 || short.Most != 64*32 {
		t.Errorf("long %+v %d, short %d %d", long.LacksMemory, long.Slot, short.Slot, short.Most)
	}
	s.SetGrowth(Growth{ConversationBytes: 100 * 100}, 0)
	s.Next()
	if long.LacksMemory || long.Slot < 0 || long.Most != 164*32 {
		t.Errorf("with memory: %v, slot %d, at most %d tokens", long.LacksMemory, long.Slot,
			long.Most)
	}
	if got := s.Promised(); got.Rest != 164 {
		t.Errorf("%+v is promised", got)
	}
	s.Remove(long, false)
	s.Remove(short, false)
	if got := s.Promised(); got != o.AtRest {
		t.Errorf("at rest %+v is promised", got)
	}
}

package sched

// Random lives of many sequences, with every step held against the rules.

import (
	"math/rand/v2"
	"testing"
)

// life is what the scenario knows of a sequence.
type life struct {
	q     *Sequence
	final int // tokens at which it ends
}

// TestScenario adds, finishes and cancels sequences at random over tiny pools.
func TestScenario(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		o := Options{PageTokens: 1 + r.IntN(5), Slots: 1 + r.IntN(4), ChunkTokens: 1 + r.IntN(12)}
		o.Pages = 1 + r.IntN(12)
		o.MixedChunkTokens = 1 + r.IntN(o.ChunkTokens)
		s := New(o)
		var lives []*life
		preempted := 0
		for range 500 {
			if r.IntN(4) == 0 && len(lives) < 12 {
				lives = append(lives, born(s, r))
			}
			if len(lives) > 0 && r.IntN(20) == 0 { // cancelled in any state
				i := r.IntN(len(lives))
				s.Remove(lives[i].q)
				lives = append(lives[:i], lives[i+1:]...)
				checkInvariants(t, s)
			}
			before := s.Preemptions
			work := s.Next()
			preempted += s.Preemptions - before
			checkWork(t, s, work)
			checkInvariants(t, s)
			if len(work) == 0 && len(lives) > 0 {
				t.Fatalf("seed %d: %d sequences are here and none moves", seed, len(lives))
			}
			lives = carryOut(s, work, lives)
			checkInvariants(t, s)
		}
		finishAll(t, s, lives)
		if t.Failed() {
			t.Fatalf("seed %d: options %+v, %d preemptions", seed, o, preempted)
		}
	}
}

// born queues a sequence that can always run alone.
func born(s *Scheduler, r *rand.Rand) *life {
	final := 1 + r.IntN(s.MaxTokens())
	l := &life{q: &Sequence{Tokens: make([]int32, 1+r.IntN(final)), Priority: r.IntN(3) - 1, Slot: -1}, final: final}
	l.q.Owner = l
	s.Add(l.q)
	return l
}

// checkWork holds one step against the limits.
func checkWork(t *testing.T, s *Scheduler, work []Work) {
	t.Helper()
	decoding, prompt := 0, 0
	seen := map[*Sequence]bool{}
	for _, w := range work {
		q := w.Seq
		if seen[q] || !q.running || w.From != q.Computed || w.To <= w.From || w.To > len(q.Tokens) || len(q.Pages)*s.o.PageTokens < w.To {
			t.Fatalf("work [%d, %d) of a sequence with %d of %d tokens computed, %d pages, running %v, planned before %v",
				w.From, w.To, q.Computed, len(q.Tokens), len(q.Pages), q.running, seen[q])
		}
		seen[q] = true
		if q.Computed > 0 && len(q.Tokens)-q.Computed == 1 {
			decoding++
		} else {
			prompt += w.To - w.From
		}
	}
	budget := s.o.ChunkTokens
	if decoding > 0 {
		budget = s.o.MixedChunkTokens
	}
	if prompt > budget {
		t.Fatalf("a step of %d prompt tokens beside %d decoding, at most %d are allowed", prompt, decoding, budget)
	}
	for _, q := range s.running {
		if q.Computed > 0 && len(q.Tokens)-q.Computed == 1 && !seen[q] {
			t.Fatalf("a decoding sequence was left out of the step")
		}
	}
}

// carryOut does what the engine does after a step, and returns who is left.
func carryOut(s *Scheduler, work []Work, lives []*life) []*life {
	done := map[*life]bool{}
	for _, w := range work {
		w.Seq.Computed = w.To
		if w.To < len(w.Seq.Tokens) {
			continue
		}
		if l := w.Seq.Owner.(*life); len(w.Seq.Tokens) >= l.final {
			s.Remove(w.Seq)
			done[l] = true
		} else {
			w.Seq.Tokens = append(w.Seq.Tokens, 0)
		}
	}
	var left []*life
	for _, l := range lives {
		if !done[l] {
			left = append(left, l)
		}
	}
	return left
}

// finishAll runs to the end: without arrivals every sequence finishes, and within a bound. Each step moves the sequence that
// matters most by a token, and what it has is never taken from it; so nobody waits for more steps than all tokens together.
func finishAll(t *testing.T, s *Scheduler, lives []*life) {
	t.Helper()
	bound := 0
	for _, l := range lives {
		bound += 2 * l.final
	}
	for n := 0; len(lives) > 0; n++ {
		if n > bound {
			t.Fatalf("%d sequences have not finished after %d steps", len(lives), n)
		}
		work := s.Next()
		checkWork(t, s, work)
		checkInvariants(t, s)
		lives = carryOut(s, work, lives)
	}
	if running, waiting, pages := s.Counts(); running+waiting+pages > 0 {
		t.Fatalf("at the end %d run, %d wait, %d pages are in use", running, waiting, pages)
	}
}

package sched

// Tests of single decisions, with expectations worked out by hand. A page has 4 positions in all of
// them.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"headroom/engine/prefix"
)

// small returns a scheduler with 2 slots and without a prefix tree. A step has at most 8 prompt
// tokens, or 3 if it also decodes.
func small(pages int) *Scheduler {
	return New(Options{NoPrefixes: true, Pages: pages, PageTokens: 4, Slots: 2, ChunkTokens: 8,
		MixedChunkTokens: 3})
}

// add queues a sequence of n tokens with the given name.
func add(s *Scheduler, name string, n, priority int) *Sequence {
	q := &Sequence{Tokens: make([]int32, n), Priority: priority, Slot: -1, Owner: name}
	s.Add(q)
	return q
}

// step plans a step, carries it out like the engine, and describes it as, for example,
// "a[0,8) b[4,5)+". A + means that the sequence generates a token.
func step(s *Scheduler) string {
	var words []string
	for _, w := range s.Next() {
		word := fmt.Sprintf("%s[%d,%d)", w.Seq.Owner, w.From, w.To)
		s.Advance(w)
		if w.To == len(w.Seq.Tokens) {
			w.Seq.Tokens = append(w.Seq.Tokens, 0)
			word += "+"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// steps plans and carries out steps, and compares them with the descriptions in want.
func steps(t *testing.T, s *Scheduler, want ...string) {
	t.Helper()
	for i, w := range want {
		if got := step(s); got != w {
			t.Errorf("step %d: got %q, expected %q", i, got, w)
		}
		checkInvariants(t, s)
	}
}

func counts(t *testing.T, s *Scheduler, running, waiting, pages int) {
	t.Helper()
	if r, w, p, _ := s.Counts(); r != running || w != waiting || p.Total() != pages {
		t.Errorf("got %d running, %d waiting, %d pages in use, expected %d, %d, %d", r, w, p,
			running, waiting, pages)
	}
}

func TestPromptInChunks(t *testing.T) {
	s := small(10)
	add(s, "a", 19, 0)
	steps(t, s, "a[0,8)", "a[8,16)", "a[16,19)+", "a[19,20)+", "a[20,21)+")
	counts(t, s, 1, 0, 6)
}

// TestLastPromptTokenAlone computes a prompt of one chunk and one more token. The last token is
// planned like a decode row.
func TestLastPromptTokenAlone(t *testing.T) {
	s := small(10)
	add(s, "a", 9, 0)
	steps(t, s, "a[0,8)", "a[8,9)+", "a[9,10)+")
}

// TestKnownTokens plans sequences whose next tokens are known. A step has at most ChunkTokens of
// them and of prompt tokens, because a pass has no rows for more.
func TestKnownTokens(t *testing.T) {
	s := small(20)
	know := func(q *Sequence, n int) {
		q.Tokens, q.Ahead = append(q.Tokens, make([]int32, n)...), n
	}
	a, b := add(s, "a", 4, 0), add(s, "b", 4, 0)
	steps(t, s, "a[0,4)+ b[0,4)+")
	know(a, 2)
	know(b, 6)
	steps(t, s, "a[4,7)+ b[4,11)+")
	know(a, 3)
	know(b, 7)
	steps(t, s, "a[7,11)+ b[11,17)", "a[11,12)+ b[17,19)+")
	s.Remove(a, false)
	add(s, "c", 9, 0)
	know(b, 6)
	steps(t, s, "b[19,26)+ c[0,2)", "b[26,27)+ c[2,5)")
	know(b, 8)
	steps(t, s, "b[27,36)+", "b[36,37)+ c[5,8)")
}

// TestDecodeFirst checks that decoding sequences come first in a step, and prompts then share the
// smaller budget.
func TestDecodeFirst(t *testing.T) {
	s := small(10)
	add(s, "a", 2, 0)
	steps(t, s, "a[0,2)+")
	add(s, "b", 7, 0)
	steps(t, s, "a[2,3)+ b[0,3)", "a[3,4)+ b[3,6)", "a[4,5)+ b[6,7)+", "a[5,6)+ b[7,8)+")
}

// TestBudgetIsShared checks that if a prompt does not use up the budget of a step, the next prompt
// gets the rest.
func TestBudgetIsShared(t *testing.T) {
	s := small(10)
	add(s, "a", 5, 0)
	add(s, "b", 10, 0)
	steps(t, s, "a[0,5)+ b[0,3)", "a[5,6)+ b[3,6)")
}

// TestNoBudgetNoAdmission checks that a step without remaining budget admits no sequence. Otherwise
// a sequence would occupy a slot without being computed.
func TestNoBudgetNoAdmission(t *testing.T) {
	s := small(10)
	add(s, "a", 8, 0)
	add(s, "b", 1, 0)
	steps(t, s, "a[0,8)+")
	counts(t, s, 1, 1, 2)
	steps(t, s, "a[8,9)+ b[0,1)+")
}

func TestAdmissionBySlots(t *testing.T) {
	s := small(10)
	a := add(s, "a", 1, 0)
	add(s, "b", 1, 0)
	add(s, "c", 1, 0)
	steps(t, s, "a[0,1)+ b[0,1)+")
	counts(t, s, 2, 1, 2)
	s.Remove(a, false)
	steps(t, s, "b[1,2)+ c[0,1)+")
	counts(t, s, 2, 0, 2)
}

// TestAdmissionByPages checks that the first sequence of the queue waits until there are pages for
// its whole prompt, and that no other sequence overtakes it.
func TestAdmissionByPages(t *testing.T) {
	s := small(4)
	a := add(s, "a", 8, 0)
	add(s, "b", 9, 0) // needs 3 pages, 2 are free
	add(s, "c", 1, 0)
	steps(t, s, "a[0,8)+")
	counts(t, s, 1, 2, 2)
	s.Remove(a, false)
	steps(t, s, "b[0,8)", "b[8,9)+ c[0,1)+")
}

// TestPriority checks that the queue is sorted by priority, then arrival, also for the smallest and
// largest int.
func TestPriority(t *testing.T) {
	const most, least = int(^uint(0) >> 1), -int(^uint(0)>>1) - 1
	s := New(Options{NoPrefixes: true, Pages: 10, PageTokens: 4, Slots: 6, ChunkTokens: 8,
		MixedChunkTokens: 8})
	add(s, "low", 1, least)
	add(s, "mid", 1, 0)
	add(s, "mid2", 1, 0)
	add(s, "high", 1, most)
	add(s, "negative", 1, -1)
	steps(t, s, "high[0,1)+ mid[0,1)+ mid2[0,1)+ negative[0,1)+ low[0,1)+")
}

// TestPreemptionTakesTheNewest checks that among equal priorities the newest sequence is preempted.
// Its work is removed from the planned step. Later it is computed again from the start, with its
// generated tokens.
func TestPreemptionTakesTheNewest(t *testing.T) {
	s := small(3)
	a, b := add(s, "a", 3, 0), add(s, "b", 4, 0)
	steps(t, s, "a[0,3)+ b[0,4)+", "a[3,4)+ b[4,5)+") // b has taken the third page
	steps(t, s, "a[4,5)+")                            // a needs a page
	if b.Computed != 0 || len(b.Tokens) != 6 || b.Slot != -1 || len(b.Pages) != 0 ||
		s.Preemptions != 1 {
		t.Errorf(
			"after preemption: %+v (%d preemptions), expected 6 tokens, none computed, no memory",
			b, s.Preemptions)
	}
	counts(t, s, 1, 1, 2)
	s.Remove(a, false)
	steps(t, s, "b[0,6)+", "b[6,7)+")
}

// TestPreemptionTakesTheLowestPriority checks that the sequence of the lowest priority is
// preempted, even if it is older.
func TestPreemptionTakesTheLowestPriority(t *testing.T) {
	s := small(3)
	add(s, "a", 4, -1)
	steps(t, s, "a[0,4)+")
	add(s, "b", 3, 0)
	steps(t, s, "a[4,5)+ b[0,3)+", "a[5,6)+ b[3,4)+", "b[4,5)+")
	counts(t, s, 1, 1, 2)
}

// TestPreemptsItself checks that if the newest sequence needs a page, it is preempted itself.
func TestPreemptsItself(t *testing.T) {
	s := small(3)
	a := add(s, "a", 5, 0)
	b := add(s, "b", 3, 0)
	steps(t, s, "a[0,5)+ b[0,3)+", "a[5,6)+ b[3,4)+", "a[6,7)+")
	if s.Preemptions != 1 || b.Computed != 0 || len(a.Pages) != 2 {
		t.Errorf("%d preemptions, b %+v, a %+v, expected b to be preempted", s.Preemptions, b, a)
	}
}

// TestPromptPreempts checks that a prompt of higher priority preempts a sequence whose work in this
// step is already planned.
func TestPromptPreempts(t *testing.T) {
	s := small(6)
	b := add(s, "b", 1, 0)
	steps(t, s, "b[0,1)+")
	add(s, "d", 17, 1) // needs 5 pages, which are free now
	steps(t, s, "b[1,2)+ d[0,3)", "b[2,3)+ d[3,6)", "b[3,4)+ d[6,9)", "b[4,5)+ d[9,12)",
		"b[5,6)+ d[12,15)", "d[15,17)+")
	if b.Computed != 0 || len(b.Tokens) != 7 {
		t.Errorf("b has %d of %d tokens computed, expected 0 of 7", b.Computed, len(b.Tokens))
	}
	counts(t, s, 1, 1, 5)
}

// TestRemove removes sequences in each of their possible states. Their memory must be free at once.
func TestRemove(t *testing.T) {
	s := small(3)
	a, b, c := add(s, "a", 12, 0), add(s, "b", 4, 0), add(s, "c", 4, 0)
	s.Remove(c, false) // waiting, never run
	steps(t, s, "a[0,8)")
	counts(t, s, 1, 1, 2)
	s.Remove(a, false) // in the middle of its prompt
	counts(t, s, 0, 1, 0)
	steps(t, s, "b[0,4)+", "b[4,5)+")
	s.Remove(b, false) // decoding
	counts(t, s, 0, 0, 0)
	s.Remove(b, false) // already removed: no effect
	d, e := add(s, "d", 3, 0), add(s, "e", 4, 0)
	steps(t, s, "d[0,3)+ e[0,4)+", "d[3,4)+ e[4,5)+", "d[4,5)+")
	s.Remove(e, false) // preempted
	s.Remove(d, false)
	counts(t, s, 0, 0, 0)
	steps(t, s, "")
}

// TestStartPages checks allocation and eviction with 3 start pages, for the first 4 positions of
// every sequence, and 2 other pages.
func TestStartPages(t *testing.T) {
	s := New(Options{Pages: 5, StartPages: 3, StartTokens: 4, PageTokens: 4, Slots: 3,
		ChunkTokens: 20, MixedChunkTokens: 20})
	if s.MaxTokens() != 12 {
		t.Errorf("MaxTokens() = %d, expected 4 start tokens and 2 pages of 4", s.MaxTokens())
	}
	long := counting(s, "long", 10, 10)
	steps(t, s, "long[0,10)+")
	s.Remove(long, true)
	// The start pages of three short sequences evict the end of long, and then its start.
	for i := range int32(3) {
		q := &Sequence{Tokens: []int32{50 + i, 51, 52}, Slot: -1, Owner: "short"}
		s.Add(q)
		steps(t, s, "short[0,3)+")
		if _, _, used, kept := s.Counts(); used != (prefix.Amount{Start: 1}) || i == 1 &&
			kept != (prefix.Amount{Start: 2, Rest: 2}) || i == 2 &&
			kept != (prefix.Amount{Start: 2}) {
			t.Errorf("sequence %d: %+v in use, %+v kept", i, used, kept)
		}
		s.Remove(q, true)
	}
	long = counting(s, "long", 12, 99)
	steps(t, s, "long[0,12)+")
	if peak := s.PeakPages(); peak != (prefix.Amount{Start: 3, Rest: 2}) {
		t.Errorf("peak of %+v pages, expected all", peak)
	}
}

// TestVictimHasNeededPages checks that a sequence with start pages only is not preempted for other
// pages.
func TestVictimHasNeededPages(t *testing.T) {
	s := New(Options{Pages: 6, StartPages: 3, StartTokens: 4, PageTokens: 4, Slots: 3,
		ChunkTokens: 20, MixedChunkTokens: 20, NoPrefixes: true})
	add(s, "a", 12, 0)
	add(s, "b", 6, 0)
	c := add(s, "c", 2, 0) // the newest
	steps(t, s, "a[0,12)+ b[0,6)+ c[0,2)+", "a[12,13)+ c[2,3)+")
	if !c.running || s.Preemptions != 1 {
		t.Errorf("c runs: %t, after %d preemptions, expected only b to be preempted", c.running,
			s.Preemptions)
	}
}

func checkInvariants(t *testing.T, s *Scheduler) { checkBetween(t, s, 0, nil) }

// checkBetween checks the invariants between two calls of the scheduler. inFlight is the number of
// state slots that planned work uses. d may hold further pages; it may be nil.
func checkBetween(t *testing.T, s *Scheduler, inFlight int, d *disk) {
	t.Helper()
	pages := make([]int32, s.o.Pages)
	slots := make([]int, s.o.Slots+s.o.StateSlots+s.o.DraftSlots)
	d.count(pages)
	for _, p := range s.promoting {
		for _, page := range slices.Concat(p.fresh, p.held.Pages) {
			pages[page]++
		}
		if p.Slot >= 0 {
			inFlight++
		}
	}
	for _, i := range slices.Concat(s.slots, s.spare) {
		slots[i]++
	}
	for _, q := range s.running {
		for i, p := range q.Pages {
			pages[p]++
			if (i*s.o.PageTokens < s.o.StartTokens) != (int(p) < s.o.StartPages) {
				t.Fatalf("%v: entry %d of the page table has page %d, which is of the wrong kind",
					q.Owner, i, p)
			}
		}
		for _, p := range q.Selected {
			pages[p]++
			if int(p) < s.o.StartPages {
				t.Fatalf("%v: a selection has page %d, which is of the wrong kind", q.Owner, p)
			}
		}
		slots[q.Slot]++
		if !q.running || len(q.Pages)*s.o.PageTokens < q.Computed || q.Computed > len(q.Tokens) {
			t.Fatalf("%v runs with %d of %d tokens computed and %d pages", q.Owner, q.Computed,
				len(q.Tokens), len(q.Pages))
		}
	}
	if s.tree != nil {
		s.tree.Each(func(page int32) { pages[page]++ })
		if n := s.tree.Slots(); n+inFlight != s.o.StateSlots {
			t.Fatalf("%d state slots are free or hold states and %d are in flight, of %d", n,
				inFlight, s.o.StateSlots)
		}
	}
	for p, n := range pages {
		if got := s.pool.Refs(int32(p)); got != n || s.tree == nil && n > 1 {
			t.Fatalf("page %d has %d references, expected %d", p, got, n)
		}
	}
	slots = slices.Delete(slots, s.o.Slots, s.o.Slots+s.o.StateSlots) // counted above
	drafting := slices.ContainsFunc(s.running, func(q *Sequence) bool { return q.Drafts > 0 })
	if slices.ContainsFunc(slots, func(n int) bool { return n != 1 && (n > 1 || !drafting) }) {
		t.Fatalf("the slots have %v owners, expected one each", slots)
	}
	for i, q := range s.waiting {
		if q.running || q.Computed != 0 || len(q.Pages)+len(q.Selected) != 0 || q.Slot != -1 {
			t.Fatalf("%v waits with %d tokens computed, %d pages, slot %d", q.Owner, q.Computed,
				len(q.Pages), q.Slot)
		}
		if i == 0 || q.Background && !s.waiting[i-1].Background {
			continue
		}
		if last := s.waiting[i-1]; last.Background && !q.Background ||
			q.Priority > last.Priority ||
			q.Priority == last.Priority && q.arrival < last.arrival {
			t.Fatalf("%v waits behind %v", q.Owner, s.waiting[i-1].Owner)
		}
	}
}

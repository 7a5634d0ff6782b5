package sched

// A randomized test with many sequences. Every step is checked against the rules of the scheduler.
// Pages and states contain real tokens here, so the test finds wrong prefixes and not only wrong
// lengths.

import (
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/engine/prefix"
)

// world is a simulated device memory. It has the token at each position of each page, and the
// tokens from which each state was computed.
type world struct {
	r      *rand.Rand
	o      Options
	pages  [][]int32
	states [][]int32
}

func newWorld(r *rand.Rand, o Options) *world {
	w := &world{r: r, o: o, states: make([][]int32, o.Slots+o.StateSlots+o.DraftSlots)}
	for range o.Pages {
		w.pages = append(w.pages, make([]int32, o.PageTokens))
	}
	return w
}

// restore makes the copies of a step's Restores. It is called before the step or a promotion writes
// anything.
func (w *world) restore(work []Work) {
	for _, k := range work {
		if r := k.Restore; r != nil {
			if r.FromPage >= 0 {
				copy(w.pages[r.ToPage], w.pages[r.FromPage])
			}
			if r.FromSlot >= 0 {
				w.states[r.ToSlot] = w.states[r.FromSlot]
			}
		}
	}
}

// approximate is added to tokens that are computed after a selection. No other sequence may resume
// after them.
const approximate = 100

// computed returns the first tokens of q as they are in pages and states.
func computed(q *Sequence, tokens int) []int32 {
	list := slices.Clone(q.Tokens[:tokens])
	for i := range list {
		if q.Select.Prompt > 0 && i >= q.Select.Prompt {
			list[i] += approximate
		}
	}
	return list
}

// run carries out k, after checking the pages and the state before it.
func (w *world) run(t *testing.T, k Work) {
	t.Helper()
	q := k.Seq
	before := computed(q, k.From)
	for i, token := range before {
		if got := w.pages[q.Pages[i/w.o.PageTokens]][i%w.o.PageTokens]; got != token {
			t.Fatalf("position %d of %v has token %d", i, q.Tokens, got)
		}
	}
	w.selects(t, k)
	if k.From == 0 {
		w.states[q.Slot] = nil
	}
	if w.o.Recurrent && !slices.Equal(w.states[q.Slot], before) {
		t.Fatalf("the state at %d of %v was computed from %v", k.From, q.Tokens, w.states[q.Slot])
	}
	after := computed(q, k.To)
	for i := k.From; i < k.To; i++ {
		w.pages[q.Pages[i/w.o.PageTokens]][i%w.o.PageTokens] = after[i]
	}
	w.states[q.Slot] = after
	for _, keep := range k.Keeps {
		w.states[keep.Slot] = computed(q, keep.Position)
	}
}

// selects checks the pages of a selection and writes them if k selects. It checks that one step
// computes all rows that select, and no row after them.
func (w *world) selects(t *testing.T, k Work) {
	t.Helper()
	q, s := k.Seq, k.Seq.Select
	if s.Prompt == 0 || k.To < s.Prompt {
		return
	}
	if len(q.Selected)*w.o.PageTokens != s.Tokens || k.From < s.Prompt && (k.To > s.Prompt ||
		k.From > s.Prompt-s.Observe) {
		t.Fatalf("work [%d, %d) with %d pages for the selection %+v", k.From, k.To,
			len(q.Selected), s)
	}
	for i, page := range q.Selected {
		mark := int32(-1000 - i - s.Prompt)
		if k.From < s.Prompt {
			w.pages[page][0] = mark
		} else if w.pages[page][0] != mark {
			t.Fatalf("page %d of the selection %+v has been overwritten", i, s)
		}
	}
}

func (w *world) keep(from int32, k *Keep) {
	if k != nil {
		w.states[k.Slot] = w.states[from]
	}
}

// life is a sequence of the scenario.
type life struct {
	q     *Sequence
	final int // the sequence ends with this many tokens
}

// TestScenario adds, finishes and cancels sequences at random, with very few pages and slots.
func TestScenario(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		o := Options{PageTokens: 1 + r.IntN(5), Slots: 1 + r.IntN(4), ChunkTokens: 1 + r.IntN(12)}
		o.Pages = 1 + r.IntN(12)
		if r.IntN(2) == 0 {
			o.StartTokens, o.StartPages = o.PageTokens*(1+r.IntN(4)), 1+r.IntN(8)
			o.Pages += o.StartPages - r.IntN(2)
		}
		o.MixedChunkTokens = 1 + r.IntN(o.ChunkTokens)
		o.NoPrefixes, o.Recurrent, o.StateSlots = r.IntN(4) == 0, r.IntN(2) == 0, r.IntN(4)
		o.PreferPrefill, o.HotBytes, o.HotConversations = r.IntN(3) == 0, r.Int64N(3)*r.Int64N(5),
			r.IntN(3)*r.IntN(3)
		o.PageBytes = prefix.Sizes{Start: 2, Rest: 1}
		o.DraftTokens, o.DraftSlots, o.States = r.IntN(6), r.IntN(6), o.Recurrent
		if r.IntN(2) == 0 {
			o.Select.Tokens = o.PageTokens * (1 + r.IntN(2))
			o.Pages += o.Select.Tokens / o.PageTokens
		}
		s, world := New(o), newWorld(r, o)
		disk := &disk{world: world, s: s}
		var lives []*life
		preempted := 0
		for range 500 {
			if r.IntN(4) == 0 && len(lives) < 12 {
				lives = append(lives, born(s, r, lives))
			}
			if len(lives) > 0 && r.IntN(20) == 0 { // cancelled in any state
				i := r.IntN(len(lives))
				world.keep(s.Remove(lives[i].q, r.IntN(2) == 0))
				lives = append(lives[:i], lives[i+1:]...)
				checkBetween(t, s, 0, disk)
			}
			disk.turn(t, lives)
			checkBetween(t, s, 0, disk)
			before := s.Preemptions
			s.ShareSteps(r.IntN(3) == 0)
			work := s.Next()
			world.restore(work)
			disk.begin(t) // after restore, because it may overwrite pages that restore copies
			preempted += s.Preemptions - before
			checkWork(t, s, work)
			checkBetween(t, s, keeps(work), disk)
			if len(work) == 0 && len(lives) > 0 && !disk.busy(lives) {
				t.Fatalf("seed %d: there are %d sequences, but no work", seed, len(lives))
			}
			lives = carryOut(t, s, world, work, lives)
			checkBetween(t, s, 0, disk)
			for _, q := range s.running {
				if len(q.Pages) != s.pagesFor(q.Computed) {
					t.Fatalf("%d pages for %d tokens", len(q.Pages), q.Computed)
				}
			}
		}
		disk.finish(t)
		checkInvariants(t, s)
		finishAll(t, s, world, lives)
		if t.Failed() {
			t.Fatalf("seed %d: options %+v, %d preemptions", seed, o, preempted)
		}
	}
}

// born queues a sequence that can always run alone. Often it shares a prefix with another one.
func born(s *Scheduler, r *rand.Rand, lives []*life) *life {
	final := 1 + r.IntN(s.MaxTokens())
	tokens := make([]int32, 1+r.IntN(final))
	for i := range tokens {
		tokens[i] = r.Int32N(2)
	}
	if len(lives) > 0 && r.IntN(3) > 0 {
		other := lives[r.IntN(len(lives))].q.Tokens
		copy(tokens, other[:r.IntN(len(other)+1)])
	}
	l := &life{q: &Sequence{Tokens: tokens, Priority: r.IntN(3) - 1, Slot: -1,
		Background: r.IntN(3) == 0}, final: final}
	for i := range tokens {
		if r.IntN(5) == 0 {
			l.q.Keep = append(l.q.Keep, i+1)
		}
	}
	l.q.Owner = l
	page := s.o.PageTokens
	c := Selection{Prompt: len(tokens), Observe: 1 + r.IntN(min(len(tokens), s.o.ChunkTokens)),
		First: s.o.StartTokens, Tokens: page, From: (len(tokens) - 1) / page * page}
	if s.o.Select.Tokens > 0 && c.First+c.Tokens <= c.From && r.IntN(2) == 0 {
		l.q.Select = c
	}
	s.Add(l.q)
	return l
}

// checkWork checks that a step computes valid tokens, stays within its budget and includes every
// decoding sequence.
func checkWork(t *testing.T, s *Scheduler, work []Work) {
	t.Helper()
	decoding, prompt, known, drafts := 0, 0, 0, 0 // known tokens are those after a decoded one
	observe := 0                                  // rows that select
	seen := map[*Sequence]bool{}
	for _, w := range work {
		q := w.Seq
		if seen[q] || !q.running || w.From != q.Computed || w.To <= w.From ||
			w.To > len(q.Tokens) || len(q.Pages)*s.o.PageTokens < w.To {
			t.Fatalf(
				"work [%d, %d) of a sequence with %d of %d tokens computed, %d pages, running %v, "+
					"planned before %v",
				w.From, w.To, q.Computed, len(q.Tokens), len(q.Pages), q.running, seen[q])
		}
		seen[q] = true
		if q.Computed > 0 && q.decodes() && w.Restore == nil {
			known += w.To - w.From - 1
			if w.To != len(q.Tokens) && known < s.o.ChunkTokens && !q.Background {
				t.Fatalf("[%d, %d) of a sequence that decodes %d tokens, %d of them known", w.From,
					w.To, len(q.Tokens)-q.Computed, q.Ahead)
			}
			drafts += w.Drafts
			decoding++
		} else {
			prompt += w.To - w.From
			if q.Select.Prompt == w.To { // these rows are not divided
				observe = max(observe, q.Select.Observe)
			}
		}
	}
	budget := s.o.ChunkTokens
	if decoding > 0 {
		budget = s.o.MixedChunkTokens
	}
	if prompt >= budget+max(observe, 1) {
		t.Fatalf("a step of %d prompt tokens beside %d decoding, at most %d are allowed", prompt,
			decoding, budget)
	}
	if prompt+known > s.o.ChunkTokens { // a pass has no rows for more
		t.Fatalf("a step of %d prompt tokens and %d known ones, at most %d are allowed", prompt,
			known, s.o.ChunkTokens)
	}
	if drafts > s.o.DraftTokens {
		t.Fatalf("a step of %d drafts, at most %d are allowed", drafts, s.o.DraftTokens)
	}
	if s.o.PreferPrefill && decoding == 0 && prompt > 0 {
		return // running streams stall while prompts are computed
	}
	waits := slices.ContainsFunc(s.running, func(q *Sequence) bool { return !q.Background })
	for _, q := range s.running {
		if q.Background && waits {
			continue
		}
		if q.Computed > q.Cached && q.decodes() && !seen[q] {
			t.Fatalf("a decoding sequence was left out of the step")
		}
	}
}

// keeps returns the number of state slots that work uses.
func keeps(work []Work) (n int) {
	for _, w := range work {
		if w.Drafts == 0 {
			n += len(w.Keeps)
		}
	}
	return n
}

// carryOut runs a step like the engine, with random failures. It returns the remaining sequences.
func carryOut(t *testing.T, s *Scheduler, world *world, work []Work, lives []*life) []*life {
	t.Helper()
	done := map[*life]bool{}
	for _, w := range work {
		world.run(t, w)
	}
	for _, w := range work {
		if world.r.IntN(30) == 0 { // this sequence fails
			s.Abandon(w)
			s.Remove(w.Seq, false)
			done[w.Seq.Owner.(*life)] = true
			continue
		}
		var drafts []int32
		if w.Drafts > 0 {
			drafts = slices.Clone(w.Seq.Tokens[w.To-w.Drafts : w.To])
		}
		s.Advance(w)
		if w.Drafts > 0 {
			ended := acceptSome(s, world, w, drafts)
			s.EndDrafts(w)
			done[w.Seq.Owner.(*life)] = ended
			continue
		}
		if w.To < len(w.Seq.Tokens) {
			continue
		}
		if l := w.Seq.Owner.(*life); len(w.Seq.Tokens) >= l.final {
			world.keep(s.Remove(w.Seq, true))
			done[l] = true
		} else {
			w.Seq.Tokens = append(w.Seq.Tokens, world.r.Int32N(2))
			for len(w.Seq.Tokens) < l.final && world.r.IntN(4) == 0 { // known tokens
				w.Seq.Tokens = append(w.Seq.Tokens, world.r.Int32N(2))
				w.Seq.Ahead++
			}
			propose(world, w.Seq, l.final)
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

// propose appends drafts, some of which have no room.
func propose(world *world, q *Sequence, final int) {
	for q.Ahead == 0 && len(q.Tokens) < final && world.r.IntN(3) > 0 {
		q.Tokens = append(q.Tokens, world.r.Int32N(2))
		q.Drafts++
	}
}

// acceptSome appends what the model chose at each row of w: often the draft. It reports whether the
// sequence has ended.
func acceptSome(s *Scheduler, world *world, w Work, drafts []int32) (ended bool) {
	q, l := w.Seq, w.Seq.Owner.(*life)
	for n := 0; ; n++ {
		if len(q.Tokens) >= l.final || world.r.IntN(20) == 0 {
			world.keep(s.Remove(q, true))
			return true
		}
		q.Tokens = append(q.Tokens, world.r.Int32N(2))
		if n == len(drafts) || q.Tokens[len(q.Tokens)-1] != drafts[n] {
			propose(world, q, l.final)
			return false
		}
		s.Accept(w, n+1)
	}
}

// finishAll runs until all sequences have finished. Without arrivals, the number of steps is
// bounded: the sequence of the highest priority is never preempted, and each step computes at least
// one of its tokens.
func finishAll(t *testing.T, s *Scheduler, world *world, lives []*life) {
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
		world.restore(work)
		for _, p := range s.Promotions() {
			s.Promoted(p, false)
		}
		checkWork(t, s, work)
		checkBetween(t, s, keeps(work), nil)
		lives = carryOut(t, s, world, work, lives)
	}
	if running, waiting, pages, _ := s.Counts(); running+waiting+pages.Total() > 0 {
		t.Fatalf("at the end %d run, %d wait, %d pages are in use, expected none",
			running, waiting, pages)
	}
}

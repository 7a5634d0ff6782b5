// Package sched decides which tokens go through the model next: continuous batching with chunked
// prefill. It is bookkeeping only, without a device or a clock, so that every decision can be
// tested.
//
// A sequence waits until a slot and pages for its tokens are free, then runs until its owner
// removes it. Each step takes one token of every sequence that is decoding, oldest first, then
// fills what is left of the step with prompt tokens. When pages run out, the sequence that would be
// missed least (lowest priority, then newest) gives all of its own back and waits to be computed
// again; by the exactness rule its text does not change.
//
// What a sequence has computed is remembered when it ends (engine/prefix). A sequence that begins
// with the same tokens takes the pages over and starts behind them; memory that nobody but the
// prefix tree uses is given up before anybody is preempted. One that begins as a running prompt
// does waits for it (follow.go), and prefixes that memory no longer holds come back from disk
// (promote.go).
package sched

import (
	"cmp"
	"slices"

	"headroom/engine/prefix"
)

// Sequence is one request's tokens and the memory that holds them. The owner appends generated
// tokens and advances Computed after each step; the scheduler alone touches the rest while the
// sequence is queued.
type Sequence struct {
	// prompt, then what was generated; below 0: a last one that is not known yet, but computed with
	// all the same
	Tokens   []int32
	Computed int   // of Tokens, how many have been through the model
	Priority int   // larger goes first
	Keep     []int // positions of the prompt, ascending, after which the state is worth keeping
	// of Tokens, how many were taken over from the prefix tree when it last started
	Cached int
	Stored int // of Tokens, how many its owner could read back from disk
	// its owner is looking for them, or reading: it does not start before this is false
	Await bool

	Pages []int32 // page table; holds at least Computed positions
	Slot  int32   // recurrent state, while running

	Owner any // the owner's own, not looked at here

	arrival uint64
	running bool
	leader  *Sequence // its first shared tokens are those of this one, which is computing them
	shared  int
}

// Options are the limits. All fields are needed.
type Options struct {
	Pages      int // in the pool
	PageTokens int // positions a page holds
	// StartTokens first positions of every sequence, a multiple of the page, have pages of a kind
	// of their own: StartPages of Pages. Or 0.
	StartTokens, StartPages int
	Slots                   int // sequences that may run at once
	ChunkTokens             int // most prompt tokens of a step
	// NoPrefixes turns the prefix tree off.
	NoPrefixes bool
	// the model has recurrent state: prefixes can be taken up only where a state was kept
	Recurrent  bool
	StateSlots int // slots [Slots, Slots+StateSlots) for kept states
	// HotBytes, in pages of PageBytes, and HotConversations bound what is remembered beside what
	// runs; 0: all that memory holds.
	HotBytes         int64
	PageBytes        prefix.Sizes
	HotConversations int

	// MixedChunkTokens is ChunkTokens for steps that also decode: it bounds how long a prompt being
	// read can stall running streams.
	MixedChunkTokens int
	// PreferPrefill lets running streams stand still while prompts are read, as long as there are
	// slots for more.
	PreferPrefill bool
}

// Work is tokens [From, To) of a sequence, to go through the model in this step. With To ==
// len(Tokens) the sequence wants its next token.
type Work struct {
	Seq      *Sequence
	From, To int
	Restore  *Restore // of a sequence that starts behind a known prefix; else nil
	Keeps    []Keep   // states to be copied on the way, by position
}

// Keep is a state worth keeping: when the sequence has passed Position, its state is copied to
// Slot.
type Keep struct {
	Position int
	Slot     int32
}

// Restore is what must be copied before the work is done, in the order of Next's answer.
type Restore struct {
	// the page in which the prefix ends; FromPage -1: it ends with a full page
	FromPage, ToPage int32
	FromSlot, ToSlot int32 // the recurrent state after the prefix; FromSlot -1: there is none
}

// Scheduler holds the queues. It is not safe for concurrent use.
type Scheduler struct {
	o       Options
	pool    *prefix.Pool
	tree    *prefix.Tree // nil: no prefixes
	slots   []int32      // free ones
	waiting []*Sequence  // by priority, then arrival
	running []*Sequence  // by admission
	arrived uint64

	wanted, arriving []*Promotion // to be handed out, and not yet ended
	starved          bool         // the last step lacked pages that evicting could not free

	marks []uint32 // by page: the last count that saw it
	mark  uint32
	work  []Work
	order []*Sequence
	// Preemptions counts sequences that had to give their pages back.
	Preemptions int
}

// New makes a scheduler whose pages and slots are all free.
func New(o Options) *Scheduler {
	start := prefix.Start{Entries: o.StartTokens / o.PageTokens, Pages: o.StartPages}
	s := &Scheduler{o: o, pool: prefix.NewPool(o.Pages, start), marks: make([]uint32, o.Pages)}
	for i := o.Slots - 1; i >= 0; i-- {
		s.slots = append(s.slots, int32(i))
	}
	if !o.NoPrefixes {
		states := make([]int32, o.StateSlots)
		for i := range states {
			states[i] = int32(o.Slots + i)
		}
		s.tree = prefix.NewTree(s.pool,
			prefix.Options{PageTokens: o.PageTokens, Recurrent: o.Recurrent, Slots: states,
				Sizes: o.PageBytes})
	}
	return s
}

// MaxTokens is the longest sequence that can ever run.
func (s *Scheduler) MaxTokens() int {
	if start := s.o.StartPages * s.o.PageTokens; start < s.o.StartTokens {
		return start
	}
	return s.o.StartTokens + (s.o.Pages-s.o.StartPages)*s.o.PageTokens
}

// Counts are the sequences in each queue, the pages that running sequences hold, and those that are
// only kept for later ones.
func (s *Scheduler) Counts() (running, waiting int, used, kept prefix.Amount) {
	s.mark++
	for _, q := range s.running {
		for i, p := range q.Pages {
			if s.marks[p] != s.mark {
				s.marks[p] = s.mark
				used = used.Plus(s.pool.Need(i, i+1))
			}
		}
	}
	return len(s.running), len(s.waiting), used, s.pool.Used().Minus(used)
}

// PeakPages is the most pages of each kind that were in use at once; no others were ever touched.
func (s *Scheduler) PeakPages() prefix.Amount { return s.pool.Peak() }

// Add queues a sequence. It must not be longer than MaxTokens, now or later.
func (s *Scheduler) Add(q *Sequence) {
	s.arrived++
	q.arrival = s.arrived
	s.enqueue(q)
}

func (s *Scheduler) enqueue(q *Sequence) {
	i, _ := slices.BinarySearchFunc(s.waiting, q, func(a, b *Sequence) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.arrival, b.arrival))
	})
	s.waiting = slices.Insert(s.waiting, i, q)
	q.leader = nil
	for _, leader := range s.running {
		s.meet(leader, q)
	}
}

// Remove takes a sequence out, whatever its state, and frees its memory at once. With remember,
// what it computed stays known to later sequences: if keep is not nil, the caller copies the state
// in the sequence's Slot (as it was) there at once.
func (s *Scheduler) Remove(q *Sequence, remember bool) (from int32, keep *Keep) {
	from = q.Slot
	if i := slices.Index(s.running, q); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
		if remember && s.tree != nil && q.Computed > 0 {
			keep = s.remember(q)
		}
		s.release(q)
	} else if i := slices.Index(s.waiting, q); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.trim()
	return from, keep
}

// trim keeps what is remembered within its bounds.
func (s *Scheduler) trim() {
	if s.tree != nil && s.o.HotBytes > 0 {
		s.tree.Trim(s.o.HotBytes)
	}
	if s.tree != nil && s.o.HotConversations > 0 {
		s.tree.TrimConversations(s.o.HotConversations)
	}
}

// remember records all that q has computed.
func (s *Scheduler) remember(q *Sequence) *Keep {
	if s.o.Recurrent {
		if slot, ok := s.tree.TakeSlot(); ok {
			if s.tree.SetState(q.Tokens[:q.Computed], q.Pages, slot) {
				return &Keep{q.Computed, slot}
			}
			return nil
		}
	}
	s.tree.Insert(q.Tokens[:q.Computed], q.Pages)
	return nil
}

// Advance records that w's work is done, and its states copied; or that the device will have done
// so before anything else it is given.
func (s *Scheduler) Advance(w Work) {
	q := w.Seq
	q.Computed = w.To
	for _, k := range w.Keeps {
		s.tree.SetState(q.Tokens[:k.Position], q.Pages, k.Slot)
	}
	if s.tree != nil && !s.o.Recurrent && w.To-w.From > 1 {
		known := w.To
		if q.Tokens[known-1] < 0 {
			known--
		}
		// others may begin with it while the rest is read and its answer written
		s.tree.Insert(q.Tokens[:known], q.Pages)
	}
}

// Abandon takes back what w was given when its work has failed. The sequence should then be
// removed.
func (s *Scheduler) Abandon(w Work) {
	for _, k := range w.Keeps {
		s.tree.ReturnSlot(k.Slot)
	}
}

func (s *Scheduler) release(q *Sequence) {
	for _, p := range q.Pages {
		s.pool.Unref(p)
	}
	s.slots = append(s.slots, q.Slot)
	q.Pages, q.Slot, q.running = q.Pages[:0], -1, false
}

// Next plans a step. The slice is reused by the next call; it is empty when nothing can be done.
func (s *Scheduler) Next() []Work {
	s.work, s.starved = s.work[:0], false
	if s.o.PreferPrefill && len(s.running) < s.o.Slots {
		if s.prompts(s.o.ChunkTokens); len(s.work) > 0 {
			return s.work
		}
	}
	s.decodes()
	budget := s.o.ChunkTokens
	if len(s.work) > 0 {
		budget = s.o.MixedChunkTokens
	}
	s.prompts(budget)
	return s.work
}

// SetMixedChunkTokens changes the bound on what a prompt may add to a step that also decodes.
func (s *Scheduler) SetMixedChunkTokens(n int) {
	s.o.MixedChunkTokens = max(1, min(n, s.o.ChunkTokens))
}

// decodes plans one token of every sequence that is decoding.
func (s *Scheduler) decodes() {
	s.order = append(s.order[:0], s.running...) // reserve may preempt any of them meanwhile
	for _, q := range s.order {
		if q.running && len(q.Tokens)-q.Computed == 1 && s.reserve(q, len(q.Tokens)) {
			s.work = append(s.work, Work{Seq: q, From: q.Computed, To: len(q.Tokens)})
		}
	}
	s.dropPreempted()
}

// prompts plans up to budget prompt tokens, of running sequences and then of waiting ones.
func (s *Scheduler) prompts(budget int) {
	s.order = append(s.order[:0], s.running...)
	for _, q := range s.order {
		if budget > 0 && q.running && len(q.Tokens)-q.Computed > 1 {
			budget -= s.prefill(q, budget, nil)
		}
	}
	s.dropPreempted() // before any of them is admitted again
	for i := 0; i < len(s.waiting) && len(s.slots) > 0 && budget > 0; {
		q := s.waiting[i]
		if q.Await || q.following() || s.arrives(q) || s.fetch(q) {
			i++
			continue
		}
		restore, ok := s.admit(i)
		if !ok {
			break
		}
		for _, follower := range s.waiting {
			s.meet(q, follower)
		}
		budget -= s.prefill(q, budget, restore)
	}
}

// admit starts waiting sequence i, behind the longest prefix that is known, if there are pages for
// all of its tokens.
func (s *Scheduler) admit(i int) (restore *Restore, ok bool) {
	q := s.waiting[i]
	none := prefix.Hit{Copy: -1, Slot: -1}
	hit := none
	if s.tree != nil {
		// the last token must be computed: its logits are wanted
		hit = s.tree.Match(q.Tokens, len(q.Tokens)-1)
	}
	if !s.evict(s.need(len(hit.Pages), len(q.Tokens))) {
		s.forgo(hit)
		if len(s.running) > 0 {
			return nil, false
		}
		hit = none // alone, what stands in its way is its own prefix
		if !s.evict(s.need(0, len(q.Tokens))) {
			return nil, false
		}
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.running = append(s.running, q)
	q.Slot, q.running = s.slots[len(s.slots)-1], true
	s.slots = s.slots[:len(s.slots)-1]
	q.Pages = append(q.Pages[:0], hit.Pages...)
	q.Computed, q.Cached = hit.Tokens, hit.Tokens
	if hit.Tokens == 0 {
		return nil, true
	}
	restore = &Restore{FromPage: hit.Copy, FromSlot: hit.Slot, ToSlot: q.Slot}
	if hit.Copy >= 0 {
		restore.ToPage = s.pool.Alloc(len(q.Pages))
		q.Pages = append(q.Pages, restore.ToPage)
		// copies come before anything is written, so that its next owner cannot be too early
		s.pool.Unref(hit.Copy)
	}
	return restore, true
}

// forgo gives a hit's references back.
func (s *Scheduler) forgo(hit prefix.Hit) {
	for _, p := range hit.Pages {
		s.pool.Unref(p)
	}
	if hit.Copy >= 0 {
		s.pool.Unref(hit.Copy)
	}
}

// evict makes room by forgetting prefixes that nobody uses, and reports whether that was enough.
func (s *Scheduler) evict(pages prefix.Amount) bool {
	if s.tree != nil && !s.pool.Free().Covers(pages) {
		s.tree.Evict(pages)
	}
	enough := s.pool.Free().Covers(pages)
	s.starved = s.starved || !enough
	return enough
}

// prefill plans up to budget tokens of q and returns how many.
func (s *Scheduler) prefill(q *Sequence, budget int, restore *Restore) int {
	to := min(q.Computed+budget, len(q.Tokens))
	if !s.reserve(q, to) {
		return 0
	}
	w := Work{Seq: q, From: q.Computed, To: to, Restore: restore}
	for _, k := range q.Keep {
		if s.tree != nil && s.o.Recurrent && k > w.From && k <= w.To {
			if slot, ok := s.tree.TakeSlot(); ok {
				w.Keeps = append(w.Keeps, Keep{k, slot})
			}
		}
	}
	s.work = append(s.work, w)
	return to - q.Computed
}

func (s *Scheduler) pagesFor(tokens int) int {
	return (tokens + s.o.PageTokens - 1) / s.o.PageTokens
}

// need is the pages that a sequence of so many tokens wants beside its first have.
func (s *Scheduler) need(have, tokens int) prefix.Amount {
	return s.pool.Need(have, s.pagesFor(tokens))
}

// reserve gives q pages for its first so many tokens, preempting others if it must. It reports
// false when q itself was the one to yield.
func (s *Scheduler) reserve(q *Sequence, tokens int) bool {
	for need := s.need(len(q.Pages), tokens); !s.evict(need); {
		victim := s.victim(q, need)
		s.preempt(victim)
		if victim == q {
			return false
		}
	}
	for len(q.Pages) < s.pagesFor(tokens) {
		q.Pages = append(q.Pages, s.pool.Alloc(len(q.Pages)))
	}
	return true
}

// victim is who would be missed least of the running sequences, q among them, that have pages of a
// kind that q needs and is not free.
func (s *Scheduler) victim(q *Sequence, need prefix.Amount) *Sequence {
	first := 0 // entry of a page table whose page helps
	if s.pool.Free().Start >= need.Start {
		first = s.o.StartTokens / s.o.PageTokens
	}
	victim := q
	for _, r := range s.running {
		less := r.Priority < victim.Priority || r.Priority == victim.Priority &&
			r.arrival > victim.arrival
		if less && len(r.Pages) > first {
			victim = r
		}
	}
	return victim
}

func (s *Scheduler) preempt(q *Sequence) {
	s.running = slices.Delete(s.running, slices.Index(s.running, q), slices.Index(s.running, q)+1)
	s.release(q)
	q.Computed, q.Cached = 0, 0
	s.Preemptions++
	s.enqueue(q)
}

// dropPreempted removes work planned for sequences that have lost their pages since.
func (s *Scheduler) dropPreempted() {
	s.work = slices.DeleteFunc(s.work, func(w Work) bool {
		if !w.Seq.running {
			s.Abandon(w)
		}
		return !w.Seq.running
	})
}

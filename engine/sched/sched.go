// Package sched decides which tokens the model computes next, by continuous batching with chunked
// prefill. It uses no device and no clock, so every decision can be tested.
//
// A sequence waits until a slot and pages for its tokens are free, then runs until its owner
// removes it. Each step computes one token of every decoding sequence, then prompt tokens up to the
// chunk size, oldest sequences first. When pages run out, the newest sequence of the lowest
// priority is preempted: it gives up all its pages and waits to be computed again. Preemption does
// not change its text, because the bits of a token do not depend on the batch.
//
// When a sequence ends, its computed tokens are cached (engine/prefix). A later sequence that
// begins with the same tokens shares those pages and resumes after them. Pages that only the prefix
// tree uses are evicted before any sequence is preempted. A sequence that shares a prefix with a
// prompt being computed waits for that prefix (follow.go). Prefixes that are no longer in memory
// are read from disk (promote.go).
package sched

import (
	"cmp"
	"slices"

	"headroom/engine/prefix"
)

// Sequence holds the tokens of one request and its memory. The owner appends generated tokens and
// sets Stored, StorePending, Ahead and Drafts. While the sequence is queued, only the scheduler
// changes the other fields.
type Sequence struct {
	// Tokens are the prompt, then the generated tokens. The last one may be a placeholder, less
	// than 0, for a token that the device has not sampled yet.
	Tokens   []int32
	Computed int // number of tokens that the model has computed
	Priority int // larger priorities run first
	// Background puts the sequence behind all that are not, and lets them preempt it; see
	// background.go. The owner sets it before Add.
	Background bool
	Keep       []int // positions of the prompt, ascending, after which to keep the recurrent state
	Cached     int   // tokens taken from the prefix tree when the sequence was last admitted
	Stored     int   // length of the prefix that can be read from disk
	// StorePending is true while a stored prefix is looked up or read. Meanwhile the sequence is
	// not admitted.
	StorePending bool
	// Private marks the tokens as private in the prefix tree; see prefix.Leaf.
	Private bool
	// Space is that of the prefix tree: that of the adapter, which the owner sets before Add; 0:
	// there is none. Sequences of different spaces share nothing.
	Space int32
	// Whole computes the sequence from its first token, even if a prefix of it is cached.
	Whole bool
	// NoCache keeps the tokens out of the prefix tree. The sequence may still resume a prefix that
	// is in it.
	NoCache bool

	// Ahead is how many tokens at the end are known although no logits have chosen them. They are
	// computed like the token before them. Advance sets it to 0.
	Ahead int
	// Drafts is how many tokens at the end are only proposed (draft.go). There are none if Ahead
	// is not 0.
	Drafts int
	// Select says which positions the tokens after the prompt attend to (select.go). The owner sets
	// it before Add. The zero value: to all.
	Select Selection

	Pages []int32 // page table; has room for at least Computed positions
	// Selected are the pages for copies of the selected positions: none before the end of the
	// prompt, or without a Selection.
	Selected []int32
	Slot     int32 // slot of the recurrent state while the sequence runs, else -1

	Owner any // set and used by the owner; the scheduler ignores it

	// Most is the most tokens that the sequence may have, 0: MaxTokens. When the scheduler grants
	// it memory (promise.go), it sets Most to as many as there is memory for. LacksMemory says that
	// the sequence waits for that.
	Most        int
	LacksMemory bool

	arrival uint64
	running bool
	granted bool      // its pages are promised
	states  []Keep    // of the drafts in a step; its memory is reused
	leader  *Sequence // the running sequence whose tokens this one waits for; nil: none
	shared  int       // number of tokens that this one shares with leader
}

// Options configure a scheduler. Pages, PageTokens, Slots, ChunkTokens and MixedChunkTokens are
// required.
type Options struct {
	Pages      int // number of pages in the pool
	PageTokens int // positions in a page
	// The first StartTokens positions of every sequence use pages of another kind, which are the
	// first StartPages pages of the pool. StartTokens is a multiple of PageTokens. Both may be 0.
	StartTokens, StartPages int
	Slots                   int  // sequences that may run at once
	ChunkTokens             int  // maximum number of prompt tokens in a step
	NoPrefixes              bool // disables the prefix tree
	// Recurrent is true for a model that can resume a prefix only where a state was kept. States
	// are kept in the slots [Slots, Slots+StateSlots).
	Recurrent  bool
	StateSlots int
	// Guaranteed are the pages of one sequence of the maximum length. AtRest are those that are
	// promised to the model while nothing runs (promise.go). GuaranteedStates are the state slots
	// that there are whatever SetGrowth says.
	Guaranteed, AtRest prefix.Amount
	GuaranteedStates   int
	// HotBytes and HotConversations limit the cache of ended sequences; 0: no limit. PageBytes is
	// the size of a page of each kind.
	HotBytes         int64
	PageBytes        prefix.Sizes
	HotConversations int

	// MixedChunkTokens replaces ChunkTokens in steps that also decode. It limits the time by which
	// a prompt stalls running streams.
	MixedChunkTokens int
	// BackgroundChunkTokens limits the prompt tokens of a step of background sequences alone
	// further; 0: it does not.
	BackgroundChunkTokens int
	// DraftTokens is the maximum number of drafts in a step; 0: there are none. If slots hold
	// recurrent States, each draft takes one of the slots [Slots+StateSlots,
	// Slots+StateSlots+DraftSlots), where the state before it is kept. A slot must then hold
	// nothing else.
	DraftTokens, DraftSlots int
	States                  bool
	// WholePrompts computes a prompt in one step. No sequence may be longer than ChunkTokens.
	WholePrompts bool
	// PreferPrefill stalls running streams while prompts are computed, unless all slots are in use.
	PreferPrefill bool
	Select        SelectOptions
}

// Work tells a step to compute the tokens [From, To) of a sequence. If To is len(Tokens), the step
// also samples the sequence's next token.
type Work struct {
	Seq      *Sequence
	From, To int
	Restore  *Restore // the cached prefix of a newly admitted sequence; nil: none
	Keeps    []Keep   // states to copy during the step, by position
	// Drafts is how many of the tokens, at the end, are only proposed. The step then computes the
	// logits of the token before them too, and of each. Keeps are the states before each of them.
	Drafts int
}

// Keep tells a step to copy the sequence's recurrent state to Slot after Position tokens.
type Keep struct {
	Position int
	Slot     int32
}

// Restore describes the copies that restore the cached prefix of a sequence. The caller makes them
// before the step, in the order in which Next returns the works.
type Restore struct {
	// The partial page in which the prefix ends; FromPage -1: the prefix ends with a full page.
	FromPage, ToPage int32
	// The recurrent state after the prefix; FromSlot -1: there is no state to copy.
	FromSlot, ToSlot int32
}

// Scheduler holds the queues. It is not safe for concurrent use.
type Scheduler struct {
	o       Options
	pool    *prefix.Pool
	tree    *prefix.Tree // nil: no prefixes are cached
	slots   []int32      // free slots
	spare   []int32      // free slots for the states of drafts
	fresh   [2]int       // the least number of slots, and of spare ones, that were ever free
	waiting []*Sequence  // sorted by priority, then arrival
	running []*Sequence  // in the order of admission
	arrived uint64       // number of sequences added so far

	newPromotions []*Promotion // returned by the next call of Promotions
	promoting     []*Promotion // started and not yet ended by Promoted
	short         bool         // the last step needed more pages than eviction could free
	shares        bool         // steps with other rows may have some of background sequences

	marks []uint32 // for each page, the value of mark when Counts last counted it
	mark  uint32   // number of calls of Counts
	work  []Work
	room  int // prompt tokens that the step may still have
	order []*Sequence
	// Preemptions counts preempted sequences.
	Preemptions int
}

// New returns a scheduler whose pages and slots are all free.
func New(o Options) *Scheduler {
	start := prefix.Start{Entries: o.StartTokens / o.PageTokens, Pages: o.StartPages}
	s := &Scheduler{o: o, pool: prefix.NewPool(o.Pages, start), marks: make([]uint32, o.Pages)}
	for i := o.Slots - 1; i >= 0; i-- {
		s.slots = append(s.slots, int32(i))
	}
	for i := range o.DraftSlots {
		s.spare = append(s.spare, int32(o.Slots+o.StateSlots+i))
	}
	s.fresh = [2]int{len(s.slots), len(s.spare)}
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

// MaxTokens returns the maximum length of a sequence, which may use all pages of the pool, some of
// them for a selection.
func (s *Scheduler) MaxTokens() int {
	if start := s.o.StartPages * s.o.PageTokens; start < s.o.StartTokens {
		return start
	}
	pages := s.o.Pages - s.o.StartPages - s.pagesFor(s.o.Select.Tokens)
	return s.o.StartTokens + pages*s.o.PageTokens
}

// Counts returns the number of sequences in each queue, the pages that running sequences use, and
// the pages that only the prefix tree uses.
func (s *Scheduler) Counts() (running, waiting int, used, kept prefix.Amount) {
	s.mark++
	for _, q := range s.running {
		for i, p := range q.Pages {
			if s.marks[p] != s.mark {
				s.marks[p] = s.mark
				used = used.Plus(s.pool.Need(i, i+1))
			}
		}
		used.Rest += len(q.Selected)
	}
	return len(s.running), len(s.waiting), used, s.pool.Used().Minus(used)
}

// PeakPages returns the peak number of pages of each kind in use. The other pages of the pool have
// never been written.
func (s *Scheduler) PeakPages() prefix.Amount { return s.pool.Peak() }

// TouchedSlots returns how many slots were ever in use at once: of running sequences, of kept
// states and of drafts. The others have never been written.
func (s *Scheduler) TouchedSlots() int {
	touched := s.o.Slots - s.fresh[0] + s.o.DraftSlots - s.fresh[1]
	if s.tree != nil {
		touched += s.tree.TouchedSlots()
	}
	return touched
}

// PromisedSlots returns how many of the guaranteed slots have never been written.
func (s *Scheduler) PromisedSlots() int {
	slots := s.fresh[0]
	if s.tree != nil {
		slots += max(0, s.o.GuaranteedStates-s.tree.TouchedSlots())
	}
	return slots
}

// Shrink evicts cached prefixes, least recently used first, until the pages that only they use take
// at most keepBytes. It then visits every free page, and every free slot of a state, that was
// written. They count as never written from now on: the caller returns their memory to the system.
// The caches do not grow again before the next SetGrowth; conversations may.
func (s *Scheduler) Shrink(keepBytes, slotBytes int64, page, slot func(int32)) {
	if s.tree != nil {
		s.tree.Trim(keepBytes)
		s.tree.DiscardSlots(slot)
	}
	allowed := larger(s.Promised(), s.pool.Most())
	s.pool.Discard(page)
	has := larger(s.Promised(), s.pool.Peak())
	bytes := larger(allowed.Minus(has), prefix.Amount{}).Bytes(s.o.PageBytes)
	s.SetGrowth(Growth{ConversationBytes: bytes}, slotBytes)
}

// Add queues a sequence. The sequence must never become longer than MaxTokens.
func (s *Scheduler) Add(q *Sequence) {
	s.arrived++
	q.arrival = s.arrived
	s.enqueue(q)
}

func (s *Scheduler) enqueue(q *Sequence) {
	i, _ := slices.BinarySearchFunc(s.waiting, q, order)
	s.waiting = slices.Insert(s.waiting, i, q)
	q.leader = nil
	for _, leader := range s.running {
		s.tryFollow(leader, q)
	}
}

// order compares sequences by the order in which they are admitted.
func order(a, b *Sequence) int {
	if a.Background != b.Background {
		if b.Background {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.arrival, b.arrival))
}

// Remove removes a running or waiting sequence and frees its memory at once. If cache is true, its
// computed tokens stay cached for later sequences. If keep is not nil, the caller must copy the
// state in slot to keep.Slot before the next step.
func (s *Scheduler) Remove(q *Sequence, cache bool) (slot int32, keep *Keep) {
	slot = q.Slot
	if i := slices.Index(s.running, q); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
		if cache && !q.NoCache && s.tree != nil && q.Exact() > 0 {
			keep = s.cachePrefix(q)
		}
		s.release(q)
	} else if i := slices.Index(s.waiting, q); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	q.granted, q.LacksMemory = false, false
	s.trim()
	return slot, keep
}

// trim evicts prefixes until the tree is within HotBytes and HotConversations.
func (s *Scheduler) trim() {
	if s.tree != nil && s.o.HotBytes > 0 {
		s.tree.Trim(s.o.HotBytes)
	}
	if s.tree != nil && s.o.HotConversations > 0 {
		s.tree.TrimConversations(s.o.HotConversations)
	}
}

// cachePrefix adds all exact tokens of q to the prefix tree. For a recurrent model it also adds the
// state after them, if q has it and a slot is free, and returns where to copy it.
func (s *Scheduler) cachePrefix(q *Sequence) *Keep {
	exact := q.Exact()
	if s.o.Recurrent && exact == q.Computed {
		if slot, ok := s.tree.TakeSlot(); ok {
			if s.tree.In(q.Space).SetState(q.Tokens[:q.Computed], q.Pages, slot, q.Private) {
				return &Keep{q.Computed, slot}
			}
			return nil
		}
	}
	s.tree.In(q.Space).Insert(q.Tokens[:exact], q.Pages, q.Private)
	return nil
}

// Advance records that w has been computed and its states have been copied. It may be called as
// soon as the device has been told to do both, because the device works in order.
func (s *Scheduler) Advance(w Work) {
	q := w.Seq
	if w.Drafts > 0 {
		q.dropDrafts(0)
		s.Accept(w, 0)
		return
	}
	q.Computed, q.Ahead = w.To, 0
	for _, k := range w.Keeps {
		s.tree.In(q.Space).SetState(q.Tokens[:k.Position], q.Pages, k.Slot, q.Private)
	}
	if s.tree != nil && !q.NoCache && !s.o.Recurrent && w.To-w.From > 1 {
		known := q.Exact()
		if q.Tokens[known-1] < 0 {
			known--
		}
		// Other sequences may share these tokens while the rest of the prompt is computed.
		s.tree.In(q.Space).Insert(q.Tokens[:known], q.Pages, q.Private)
	}
}

// Abandon frees the state slots of a Work that failed. The caller should then remove the sequence.
func (s *Scheduler) Abandon(w Work) {
	if w.Drafts > 0 {
		w.Seq.dropDrafts(0)
		s.EndDrafts(w)
		return
	}
	for _, k := range w.Keeps {
		s.tree.ReturnSlot(k.Slot)
	}
}

func (s *Scheduler) release(q *Sequence) {
	for _, p := range q.Pages {
		s.pool.Unref(p)
	}
	for _, p := range q.Selected {
		s.pool.Unref(p)
	}
	s.slots = append(s.slots, q.Slot)
	q.Pages, q.Selected, q.Slot, q.running = q.Pages[:0], q.Selected[:0], -1, false
}

// Next plans a step. The result is empty if there is nothing to do. It is valid until the next
// call.
func (s *Scheduler) Next() []Work {
	s.work, s.short, s.room = s.work[:0], false, s.o.ChunkTokens
	if s.o.PreferPrefill && s.foreground() < s.o.Slots {
		if s.planPrefill(s.o.ChunkTokens, false); len(s.work) > 0 {
			for _, q := range s.running { // none of them decodes in this step
				q.dropDrafts(0)
			}
			return s.work
		}
	}
	left := s.planDecode(s.o.ChunkTokens, false)
	s.room = left
	budget := s.o.ChunkTokens
	if len(s.work) > 0 {
		budget = min(s.o.MixedChunkTokens, left)
	}
	decoding := len(s.work)
	s.planPrefill(budget, false)
	s.planBackground(decoding)
	s.placeDrafts()
	return s.work
}

// SetMixedChunkTokens sets Options.MixedChunkTokens to n, but at least 1 and at most ChunkTokens.
func (s *Scheduler) SetMixedChunkTokens(n int) {
	s.o.MixedChunkTokens = max(1, min(n, s.o.ChunkTokens))
}

// SetBackgroundChunkTokens sets Options.BackgroundChunkTokens.
func (s *Scheduler) SetBackgroundChunkTokens(n int) { s.o.BackgroundChunkTokens = n }

// maxAhead bounds the tokens of a decoding sequence in a step. More of them are planned like a
// prompt.
const maxAhead = 64

// planDecode plans one token of every decoding sequence of a class, and those that are known after
// it. These count like prompt tokens: of more than left, the rest are for the next step. planDecode
// returns how many prompt tokens the step may still have.
func (s *Scheduler) planDecode(left int, background bool) int {
	first := len(s.work)
	s.order = append(s.order[:0], s.running...) // reserve may preempt some of them
	for _, q := range s.order {
		if q.Background != background || !q.running || !q.decodes() {
			continue
		}
		ahead := min(q.Ahead, left)
		if to := q.Computed + 1 + ahead; s.reserve(q, to) {
			s.work = append(s.work, Work{Seq: q, From: q.Computed, To: to})
			left -= ahead
		}
	}
	s.dropPreempted()
	return s.planDrafts(s.work[min(first, len(s.work)):], left)
}

// decodes reports whether all tokens of a running sequence have been computed but the last and
// those that are known or proposed after it.
func (q *Sequence) decodes() bool {
	return q.Ahead <= maxAhead && len(q.Tokens)-q.Computed == 1+q.Ahead+q.Drafts
}

// planPrefill plans up to budget prompt tokens of a class, first of running and then of waiting
// sequences. It returns what is left of the budget.
func (s *Scheduler) planPrefill(budget int, background bool) (left int) {
	s.order = append(s.order[:0], s.running...)
	for _, q := range s.order {
		if q.Background == background && budget > 0 && q.running && len(q.Tokens) > q.Computed &&
			!q.decodes() {
			budget -= s.prefill(q, budget, nil)
		}
	}
	s.dropPreempted() // before a preempted sequence is admitted again
	for i := 0; i < len(s.waiting) && s.slotFor(background) && budget > 0; {
		q := s.waiting[i]
		if q.Background != background {
			break // background sequences wait until no other one does
		}
		if s.o.WholePrompts && len(q.Tokens) > budget || q.Select.Observe > s.room {
			break // it is the first of the next step
		}
		if q.StorePending || q.following() || !s.grant(q) || s.followsPromotion(q) || s.fetch(q) {
			i++
			continue
		}
		restore, ok := s.admit(i)
		if !ok {
			break
		}
		for _, follower := range s.waiting {
			s.tryFollow(q, follower)
		}
		budget -= s.prefill(q, budget, restore)
	}
	return budget
}

// admit starts waiting sequence i after its longest cached prefix, if there are pages for all its
// tokens.
func (s *Scheduler) admit(i int) (restore *Restore, ok bool) {
	q := s.waiting[i]
	none := prefix.Hit{Copy: -1, Slot: -1}
	hit := none
	if s.tree != nil && !q.Whole {
		// The last token must be computed for its logits.
		hit = s.tree.In(q.Space).Match(q.Tokens, q.Resumable())
	}
	if !s.makeRoom(q, s.needFor(q, len(hit.Pages), len(q.Tokens))) {
		s.unref(hit)
		if len(s.running) > 0 {
			return nil, false
		}
		hit = none // no other sequence runs, so only q's own prefix occupies the pages
		if !s.evict(s.needFor(q, 0, len(q.Tokens))) {
			return nil, false
		}
	}
	if len(s.slots) == 0 {
		s.preempt(s.newestBackground()) // slotFor has found it
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.running = append(s.running, q)
	q.Slot, q.running = s.slots[len(s.slots)-1], true
	s.slots = s.slots[:len(s.slots)-1]
	s.fresh[0] = min(s.fresh[0], len(s.slots))
	q.Pages = append(q.Pages[:0], hit.Pages...)
	q.Computed, q.Cached = hit.Tokens, hit.Tokens
	if hit.Tokens == 0 {
		return nil, true
	}
	restore = &Restore{FromPage: hit.Copy, FromSlot: hit.Slot, ToSlot: q.Slot}
	if hit.Copy >= 0 {
		restore.ToPage = s.pool.Alloc(len(q.Pages))
		q.Pages = append(q.Pages, restore.ToPage)
		// The caller makes the copy before anything is written, so the page may be reused at once.
		s.pool.Unref(hit.Copy)
	}
	return restore, true
}

// unref drops the references that a hit holds.
func (s *Scheduler) unref(hit prefix.Hit) {
	for _, p := range hit.Pages {
		s.pool.Unref(p)
	}
	if hit.Copy >= 0 {
		s.pool.Unref(hit.Copy)
	}
}

// evict evicts unused prefixes until the given number of pages is free. It reports whether enough
// pages are free.
func (s *Scheduler) evict(pages prefix.Amount) bool {
	if s.tree != nil && !s.pool.Free().Covers(pages) {
		s.tree.Evict(pages)
	}
	enough := s.pool.Free().Covers(pages)
	s.short = s.short || !enough
	return enough
}

// prefill plans up to budget tokens of q and returns their number.
func (s *Scheduler) prefill(q *Sequence, budget int, restore *Restore) int {
	to := s.chunkEnd(q, budget)
	if to == q.Computed || !s.reserve(q, to) {
		return 0
	}
	s.room -= to - q.Computed
	w := Work{Seq: q, From: q.Computed, To: to, Restore: restore}
	for _, k := range q.Keep {
		if s.tree != nil && !q.NoCache && s.o.Recurrent && k > w.From && k <= w.To {
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

// need returns the number of pages that a sequence of the given length still needs if
// entries [0, have) of its page table are filled.
func (s *Scheduler) need(have, tokens int) prefix.Amount {
	return s.pool.Need(have, s.pagesFor(tokens))
}

// reserve allocates pages for the first tokens of q up to the given number. If necessary, it
// preempts other sequences. It returns false if q itself was preempted.
func (s *Scheduler) reserve(q *Sequence, tokens int) bool {
	for need := s.needFor(q, len(q.Pages), tokens); !s.evict(need); {
		victim := s.victim(q, need)
		s.preempt(victim)
		if victim == q {
			return false
		}
	}
	s.fill(q, tokens)
	return true
}

// fill allocates pages, which must be free, for the first tokens of q up to the given number.
func (s *Scheduler) fill(q *Sequence, tokens int) {
	for len(q.Pages) < s.pagesFor(tokens) {
		q.Pages = append(q.Pages, s.pool.Alloc(len(q.Pages)))
	}
	for q.selects(tokens) && len(q.Selected) < s.pagesFor(q.Select.Tokens) {
		q.Selected = append(q.Selected, s.pool.Alloc(s.pagesFor(s.o.StartTokens)))
	}
}

// victim chooses the running sequence to preempt for q. It is the newest sequence of the lowest
// priority that has pages of a kind that q needs. It may be q itself.
func (s *Scheduler) victim(q *Sequence, need prefix.Amount) *Sequence {
	first := 0 // first entry of a page table whose page would be useful to q
	if s.pool.Free().Start >= need.Start {
		first = s.o.StartTokens / s.o.PageTokens
	}
	victim := q
	for _, r := range s.running {
		if order(r, victim) > 0 && len(r.Pages) > first {
			victim = r
		}
	}
	return victim
}

func (s *Scheduler) preempt(q *Sequence) {
	s.running = slices.Delete(s.running, slices.Index(s.running, q), slices.Index(s.running, q)+1)
	q.dropDrafts(0)
	s.cachePreempted(q)
	s.release(q)
	q.Computed, q.Cached = 0, 0
	s.Preemptions++
	s.enqueue(q)
}

// dropPreempted removes the work of sequences that were preempted after it was planned.
func (s *Scheduler) dropPreempted() {
	s.work = slices.DeleteFunc(s.work, func(w Work) bool {
		if !w.Seq.running {
			s.Abandon(w)
		}
		return !w.Seq.running
	})
}

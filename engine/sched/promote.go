package sched

// Prefixes move between the prefix tree and the block store on disk. Meanwhile their memory is
// held: pages that are being written to disk are not evicted, and no sequence uses pages into which
// a prefix is being read.

import (
	"slices"

	"headroom/engine/prefix"
)

// Promotion is the memory for a prefix that is being read from disk.
type Promotion struct {
	Seq    *Sequence // the sequence that waits for the prefix
	Tokens []int32   // the prefix
	Pages  []int32   // its page table
	// From is the first position to be read: a multiple of the page size, or len(Tokens). The pages
	// before it are in memory and must not be written.
	From  int
	Slot  int32 // for the state after the prefix; -1: the model has no states
	held  prefix.Held
	fresh []int32 // pages allocated for it
}

// Known returns the number of leading tokens of q whose keys and values are in memory, and the
// number of tokens after which q could resume. The last token does not count, because it must be
// computed for its logits. Nor do those whose queries select.
func (s *Scheduler) Known(q *Sequence) (known, resumable int) {
	if s.tree == nil {
		return 0, 0
	}
	return s.tree.In(q.Space).Probe(q.Tokens, q.Resumable())
}

// Promotions returns the promotions that have started since the last call. The caller reads each of
// them from disk and then calls Promoted. Before that, it must make the copies of the step's
// Restores: they may copy from a page or slot that has since been allocated to a promotion.
func (s *Scheduler) Promotions() []*Promotion {
	p := s.newPromotions
	s.newPromotions = nil
	return p
}

// FetchTokens returns the minimum number of tokens worth reading from disk. Computing fewer tokens
// is faster.
func (s *Scheduler) FetchTokens() int { return 2 * s.o.PageTokens }

// fetch starts a promotion of the stored prefix of the waiting sequence q, if that saves enough
// tokens and there is memory for q to start now.
func (s *Scheduler) fetch(q *Sequence) bool {
	if q.Stored == 0 || s.tree == nil {
		return false
	}
	if _, known := s.Known(q); q.Stored-known < s.FetchTokens() {
		return false
	}
	p, ok := s.promote(q, q.Stored)
	if ok {
		// There is no second attempt. If reading fails, q resumes after its longest prefix in
		// memory.
		q.Stored, q.StorePending = 0, true
		s.newPromotions = append(s.newPromotions, p)
		s.promoting = append(s.promoting, p)
	}
	return ok
}

// Preload starts a promotion of tokens for which no sequence waits yet. It evicts nothing and takes
// pages of at most maxBytes, whose size it returns. The caller reads the prefix from disk and then
// calls Promoted. The result is nil if any sequence is in the queues, if memory does not suffice,
// or if nearly all of the prefix is in memory.
func (s *Scheduler) Preload(tokens []int32, maxBytes int64) (p *Promotion, bytes int64) {
	if s.tree == nil || len(s.running)+len(s.waiting) > 0 {
		return nil, 0
	}
	known, resumable := s.tree.Probe(tokens, len(tokens))
	need := s.need(known/s.o.PageTokens, len(tokens))
	bytes = need.Bytes(s.o.PageBytes)
	if len(tokens)-resumable < s.FetchTokens() || bytes > maxBytes ||
		!s.pool.Free().Covers(need) || s.o.Recurrent && s.tree.FreeSlots() == 0 {
		return nil, 0
	}
	p, ok := s.promote(&Sequence{Tokens: tokens, StorePending: true}, len(tokens))
	if !ok {
		return nil, 0
	}
	s.promoting = append(s.promoting, p)
	return p, bytes
}

// Load starts a promotion of tokens, however few, for which no sequence waits yet. Unlike Preload
// it evicts what it must. known is true if a sequence can already resume after the tokens. The
// result is nil then, or if memory does not suffice.
func (s *Scheduler) Load(tokens []int32) (p *Promotion, known bool) {
	if s.tree == nil {
		return nil, false
	}
	if _, resumable := s.tree.Probe(tokens, len(tokens)); resumable == len(tokens) {
		return nil, true
	}
	p, ok := s.promote(&Sequence{Tokens: tokens, StorePending: true}, len(tokens))
	if !ok {
		return nil, false
	}
	s.promoting = append(s.promoting, p)
	return p, false
}

// Use marks the longest cached prefix of tokens as the most recently used.
func (s *Scheduler) Use(tokens []int32) {
	if s.tree != nil {
		s.unref(s.tree.Match(tokens, len(tokens)))
	}
}

// followsPromotion reports whether the waiting sequence q should wait for a promotion of another
// sequence, because that promotion reads a long prefix of q.
func (s *Scheduler) followsPromotion(q *Sequence) bool {
	return !q.Whole && slices.ContainsFunc(s.promoting, func(p *Promotion) bool {
		if p.Seq.Space != q.Space {
			return false
		}
		shared := prefix.Common(q.Tokens[:q.Resumable()], p.Tokens)
		if shared < s.FetchTokens() || s.o.Recurrent && shared < len(p.Tokens) {
			return false
		}
		_, known := s.Known(q)
		return shared-known >= s.FetchTokens()
	})
}

// promote allocates memory for reading q.Tokens[:to]. It returns false if there is not enough.
func (s *Scheduler) promote(q *Sequence, to int) (*Promotion, bool) {
	p := &Promotion{Seq: q, Tokens: q.Tokens[:to:to], Slot: -1,
		held: s.tree.In(q.Space).Hold(q.Tokens[:to], false)}
	p.From = to
	if p.held.Tokens < to {
		p.From = p.held.Tokens / s.o.PageTokens * s.o.PageTokens
	}
	p.Pages = append(p.Pages, p.held.Pages[:s.pagesFor(p.From)]...)
	if !s.makeRoom(q, s.need(len(p.Pages), len(q.Tokens))) {
		s.tree.Release(p.held)
		return nil, false
	}
	if s.o.Recurrent {
		slot, ok := s.tree.TakeSlot()
		if !ok {
			s.tree.Release(p.held)
			return nil, false
		}
		p.Slot = slot
	}
	for len(p.Pages) < s.pagesFor(to) {
		page := s.pool.Alloc(len(p.Pages))
		p.fresh, p.Pages = append(p.fresh, page), append(p.Pages, page)
	}
	return p, true
}

// Promoted ends a promotion. If ok is true, the prefix is added to the prefix tree. Otherwise its
// memory is freed. In both cases the sequence may then start.
func (s *Scheduler) Promoted(p *Promotion, ok bool) {
	switch {
	case ok && s.o.Recurrent:
		s.tree.In(p.Seq.Space).SetState(p.Tokens, p.Pages, p.Slot, p.Seq.Private)
	case ok:
		s.tree.In(p.Seq.Space).Insert(p.Tokens, p.Pages, p.Seq.Private)
	case s.o.Recurrent:
		s.tree.ReturnSlot(p.Slot)
	}
	for _, page := range p.fresh {
		s.pool.Unref(page)
	}
	s.tree.Release(p.held)
	s.promoting = slices.DeleteFunc(s.promoting, func(a *Promotion) bool { return a == p })
	p.Seq.StorePending = false
}

// Held returns how much of a prompt, of which only hashes are known, is in the prefix tree; see
// prefix.Space.Held.
func (s *Scheduler) Held(chain []prefix.Hash, blockTokens int, ends []prefix.End) (tokens int) {
	if s.tree == nil {
		return 0
	}
	return s.tree.Held(chain, blockTokens, ends)
}

// Hold returns the pages and states of the longest prefix of tokens in a space of the prefix tree.
// They are not evicted before Release is called.
func (s *Scheduler) Hold(space int32, tokens []int32) prefix.Held {
	if s.tree == nil {
		return prefix.Held{}
	}
	return s.tree.In(space).Hold(tokens, true)
}

// Release ends a Hold.
func (s *Scheduler) Release(h prefix.Held) {
	if s.tree != nil {
		s.tree.Release(h)
		s.trim()
	}
}

// Forget drops a conversation from the prefix tree, or all conversations; see prefix.Tree.Forget.
func (s *Scheduler) Forget(tokens []int32) {
	if s.tree != nil {
		s.tree.Forget(tokens)
	}
}

// ShortOfPages reports whether a sequence waited or was preempted in the last step because too few
// pages were free. Releasing held pages could help.
func (s *Scheduler) ShortOfPages() bool { return s.short }

// FreePages returns the number of free pages.
func (s *Scheduler) FreePages() prefix.Amount { return s.pool.Free() }

// PagesFor returns the number of pages that a sequence of the given length needs.
func (s *Scheduler) PagesFor(tokens int) prefix.Amount { return s.need(0, tokens) }

// Leaves visits the cached prefixes; see prefix.Tree.Leaves.
func (s *Scheduler) Leaves(visit func(prefix.Leaf)) {
	if s.tree != nil {
		s.tree.Leaves(visit)
	}
}

package sched

// Prefixes move between the prefix tree and the block store on disk. Reading and writing take time,
// so their memory is held meanwhile. Pages being written are not evicted, and no other sequence
// uses the pages that are being read.

import (
	"slices"

	"headroom/engine/prefix"
)

// Promotion is memory for a prefix that is being read back.
type Promotion struct {
	Seq    *Sequence // the sequence that waits for the prefix
	Tokens []int32   // the prefix
	Pages  []int32   // its page table
	// From is the first position to be read: a multiple of the page, or len(Tokens). The pages
	// before it are in memory and must not be written.
	From  int
	Slot  int32 // for the state after the prefix; -1: the model has none
	held  prefix.Held
	fresh []int32 // pages allocated for it
}

// Known returns the number of q's tokens whose keys and values are in memory, and the number after
// which q could resume. The last token does not count, because it must be computed for its logits.
func (s *Scheduler) Known(q *Sequence) (known, resumable int) {
	if s.tree == nil {
		return 0, 0
	}
	return s.tree.Probe(q.Tokens, len(q.Tokens)-1)
}

// Promotions returns the new prefixes to be read back since the last call. The caller ends each of
// them with Promoted. A Restore of the same step may copy from a page or slot that was then evicted
// and allocated to a promotion. So the caller makes those copies first.
func (s *Scheduler) Promotions() []*Promotion {
	p := s.newPromotions
	s.newPromotions = nil
	return p
}

// FetchTokens returns the minimum number of tokens, beyond those in memory, that are read from
// disk. Computing fewer tokens is faster.
func (s *Scheduler) FetchTokens() int { return 2 * s.o.PageTokens }

// fetch starts to read back the stored prefix of the waiting sequence q, if that saves enough
// tokens and q could start now.
func (s *Scheduler) fetch(q *Sequence) bool {
	if q.Stored == 0 || s.tree == nil {
		return false
	}
	if _, known := s.Known(q); q.Stored-known < s.FetchTokens() {
		return false
	}
	p, ok := s.promote(q, q.Stored)
	if ok {
		// This happens once. If reading fails, q starts after its longest prefix in memory.
		q.Stored, q.StorePending = 0, true
		s.newPromotions = append(s.newPromotions, p)
		s.promoting = append(s.promoting, p)
	}
	return ok
}

// followsPromotion reports whether a prefix of the waiting sequence q is being read back for
// another sequence, and is long enough to wait for.
func (s *Scheduler) followsPromotion(q *Sequence) bool {
	return slices.ContainsFunc(s.promoting, func(p *Promotion) bool {
		shared := prefix.Common(q.Tokens[:len(q.Tokens)-1], p.Tokens)
		if shared < s.FetchTokens() || s.o.Recurrent && shared < len(p.Tokens) {
			return false
		}
		_, known := s.Known(q)
		return shared-known >= s.FetchTokens()
	})
}

// promote allocates memory for q.Tokens[:to]. It returns false if memory is short.
func (s *Scheduler) promote(q *Sequence, to int) (*Promotion, bool) {
	p := &Promotion{Seq: q, Tokens: q.Tokens[:to:to], held: s.tree.Hold(q.Tokens[:to], false),
		Slot: -1}
	p.From = to
	if p.held.Tokens < to {
		p.From = p.held.Tokens / s.o.PageTokens * s.o.PageTokens
	}
	p.Pages = append(p.Pages, p.held.Pages[:s.pagesFor(p.From)]...)
	if !s.evict(s.need(len(p.Pages), len(q.Tokens))) {
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

// Promoted ends a promotion. If ok is true, its prefix is added to the prefix tree, otherwise its
// memory is freed. Its sequence may then start.
func (s *Scheduler) Promoted(p *Promotion, ok bool) {
	switch {
	case ok && s.o.Recurrent:
		s.tree.SetState(p.Tokens, p.Pages, p.Slot)
	case ok:
		s.tree.Insert(p.Tokens, p.Pages)
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

// Hold returns the pages and states in memory of the longest prefix of tokens. They are not evicted
// before Release.
func (s *Scheduler) Hold(tokens []int32) prefix.Held {
	if s.tree == nil {
		return prefix.Held{}
	}
	return s.tree.Hold(tokens, true)
}

// Release ends a Hold.
func (s *Scheduler) Release(h prefix.Held) {
	if s.tree != nil {
		s.tree.Release(h)
		s.trim()
	}
}

// Forget drops a conversation from the prefix tree, or all of them; see prefix.Tree.Forget.
func (s *Scheduler) Forget(tokens []int32) {
	if s.tree != nil {
		s.tree.Forget(tokens)
	}
}

// ShortOfPages reports whether a sequence waited or was preempted in the last step because pages
// ran out. Releasing held pages could help.
func (s *Scheduler) ShortOfPages() bool { return s.short }

// FreePages returns the number of free pages.
func (s *Scheduler) FreePages() prefix.Amount { return s.pool.Free() }

// PagesFor returns the number of pages of a sequence of that length.
func (s *Scheduler) PagesFor(tokens int) prefix.Amount { return s.need(0, tokens) }

// Leaves visits the cached prefixes; see prefix.Tree.Leaves.
func (s *Scheduler) Leaves(visit func(tokens []int32, resumable int)) {
	if s.tree != nil {
		s.tree.Leaves(visit)
	}
}

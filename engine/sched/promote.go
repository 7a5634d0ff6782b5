package sched

// The way between the prefix tree and the block store on disk. Both directions take time, so the
// memory is held meanwhile: what is written to disk is not evicted under the writer, and what is
// read back goes into pages that nobody else has until it is whole.

import (
	"slices"

	"headroom/engine/prefix"
)

// Promotion is memory for a prefix that is being read back.
type Promotion struct {
	Seq    *Sequence // that waits for it
	Tokens []int32   // the prefix
	Pages  []int32   // its page table
	// positions before it are in memory: their pages must not be written; a multiple of the page,
	// or all
	From  int
	Slot  int32 // for the state after the prefix; -1: the model has none
	held  prefix.Held
	fresh []int32
}

// Known tells how many of q's tokens have their keys and values in memory, and after how many it
// could go on. Its last token is not counted: it must be computed for its logits.
func (s *Scheduler) Known(q *Sequence) (known, resumed int) {
	if s.tree == nil {
		return 0, 0
	}
	return s.tree.Probe(q.Tokens, len(q.Tokens)-1)
}

// Promotions are the prefixes that have become wanted since the last call: to be read back, and
// each to be ended by Promoted. Their pages and slots may be those that a Restore of the same step
// copies from, forgotten since: the copies come first.
func (s *Scheduler) Promotions() []*Promotion {
	p := s.wanted
	s.wanted = nil
	return p
}

// FetchTokens is how many more tokens than memory the disk must have of a sequence to be asked:
// reading files for less costs more than computing.
func (s *Scheduler) FetchTokens() int { return 2 * s.o.PageTokens }

// fetch has the stored prefix of the waiting sequence q read back, if that is worth it and q could
// start now.
func (s *Scheduler) fetch(q *Sequence) bool {
	if q.Stored == 0 || s.tree == nil {
		return false
	}
	if _, known := s.Known(q); q.Stored-known < s.FetchTokens() {
		return false
	}
	p, ok := s.promote(q, q.Stored)
	if ok {
		// asked once: whatever comes of it, q goes on behind what is known then
		q.Stored, q.Await = 0, true
		s.wanted = append(s.wanted, p)
		s.arriving = append(s.arriving, p)
	}
	return ok
}

// arrives reports whether much of the waiting sequence q is being read back for another.
func (s *Scheduler) arrives(q *Sequence) bool {
	return slices.ContainsFunc(s.arriving, func(p *Promotion) bool {
		shared := prefix.Common(q.Tokens[:len(q.Tokens)-1], p.Tokens)
		if shared < s.FetchTokens() || s.o.Recurrent && shared < len(p.Tokens) {
			return false
		}
		_, known := s.Known(q)
		return shared-known >= s.FetchTokens()
	})
}

// promote finds memory for q's first tokens, up to to, to be read into it. It reports false when q
// could not start now, either for want of memory.
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

// Promoted ends a promotion, and the waiting for it: with ok its prefix is known from now on,
// otherwise its memory is free again.
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
	s.arriving = slices.DeleteFunc(s.arriving, func(a *Promotion) bool { return a == p })
	p.Seq.Await = false
}

// Hold finds what is known of tokens, to be read until Release.
func (s *Scheduler) Hold(tokens []int32) prefix.Held {
	if s.tree == nil {
		return prefix.Held{}
	}
	return s.tree.Hold(tokens, true)
}

// Release ends a Hold, and keeps what is remembered within its bounds.
func (s *Scheduler) Release(h prefix.Held) {
	if s.tree != nil {
		s.tree.Release(h)
		s.trim()
	}
}

// Forget gives up what is remembered of a conversation, or of all: see prefix.Tree.
func (s *Scheduler) Forget(tokens []int32) {
	if s.tree != nil {
		s.tree.Forget(tokens)
	}
}

// Starved reports whether somebody had to wait or yield in the last step for want of pages. What is
// held could help.
func (s *Scheduler) Starved() bool { return s.starved }

// FreePages is the pages that nobody refers to.
func (s *Scheduler) FreePages() prefix.Amount { return s.pool.Free() }

// PagesFor is the pages that a sequence of so many tokens takes.
func (s *Scheduler) PagesFor(tokens int) prefix.Amount { return s.need(0, tokens) }

// Leaves is what is remembered: see prefix.Tree.
func (s *Scheduler) Leaves(visit func(tokens []int32, resumed int)) {
	if s.tree != nil {
		s.tree.Leaves(visit)
	}
}

package sched

// Pages are promised to requests, not to a model at rest: a pool grows with use. At rest only
// Options.AtRest is promised. A sequence is granted memory before it is first admitted: all pages
// for as long as it may become (Sequence.Most). What is promised is enough for the longest sequence
// that was granted memory, so a running answer cannot lack memory: at worst all others are
// preempted for it, and get their turns after it. The promise ends with the sequence.
//
// SetGrowth limits what may be promised. A sequence that would have to end too early within that
// limit waits, and sequences after it that fit go first.

import "headroom/engine/prefix"

// LeastAnswer is the shortest answer, in tokens, for which a sequence is granted less memory than
// it asks for. Sequence.Most then is what it was granted.
const LeastAnswer = 1024

// Growth is the memory that SetGrowth allows, beyond what is promised or written.
type Growth struct {
	// ConversationBytes may be promised to sequences, up to one of the maximum length.
	ConversationBytes int64
	// CacheBytes are for cached prefixes and further sequences.
	CacheBytes int64
}

// Promised returns the pages that no other model may take: those for the longest sequence that was
// granted memory, and at least Options.AtRest.
func (s *Scheduler) Promised() prefix.Amount {
	most := s.o.AtRest
	for _, list := range [][]*Sequence{s.running, s.waiting} {
		for _, q := range list {
			if q.granted {
				most = larger(most, s.pagesOf(q, q.Most))
			}
		}
	}
	return most
}

// MostPages returns how many pages may be in use at once.
func (s *Scheduler) MostPages() prefix.Amount { return s.pool.Most() }

// grant promises q the pages for as many tokens as it may have, and reports whether it did. If
// there are too few for that, but enough for an answer of LeastAnswer tokens, q gets what there is.
// A sequence keeps its promise until it is removed, also while it is preempted.
func (s *Scheduler) grant(q *Sequence) bool {
	if q.granted {
		return true
	}
	if q.Most == 0 {
		q.Most = s.MaxTokens()
	}
	most := q.Most
	if whole := s.pagesOf(q, most); !s.pool.Most().Covers(whole) {
		most = min(most, s.affordable(q))
		if most < min(q.Most, len(q.Tokens)+LeastAnswer) {
			q.LacksMemory = true
			return false
		}
	}
	q.Most, q.granted, q.LacksMemory = most, true, false
	return true
}

// pagesOf returns the pages of a sequence of the given length, with those of its selection.
func (s *Scheduler) pagesOf(q *Sequence, tokens int) prefix.Amount {
	n := s.need(0, tokens)
	if q.Select.Prompt > 0 {
		n.Rest += s.pagesFor(q.Select.Tokens)
	}
	return n
}

// affordable returns how long q may become with the pages that may be in use at once.
func (s *Scheduler) affordable(q *Sequence) int {
	most := s.pool.Most()
	if most.Start*s.o.PageTokens < s.o.StartTokens {
		return most.Start * s.o.PageTokens
	}
	if q.Select.Prompt > 0 {
		most.Rest -= s.pagesFor(q.Select.Tokens)
	}
	return s.o.StartTokens + max(most.Rest, 0)*s.o.PageTokens
}

// SetGrowth limits how much memory is taken from now on, beyond what is promised or was written.
// CacheBytes are shared: start pages, other pages, and states of slotBytes each get equal shares;
// the next call shares what is left. The few slots for the states of drafts are not limited.
func (s *Scheduler) SetGrowth(g Growth, slotBytes int64) {
	sizes, bytes := s.o.PageBytes, g.CacheBytes
	kinds := int64(0)
	for _, all := range []int64{sizes.Start * int64(s.o.StartPages), sizes.Rest * int64(s.o.Pages),
		slotBytes * int64(s.o.StateSlots)} {
		kinds += min(all, 1)
	}
	bytes /= max(kinds, 1)
	limit := s.conversation(g.ConversationBytes)
	limit.Start += atMost(bytes, sizes.Start, s.o.StartPages)
	limit.Rest += atMost(bytes, sizes.Rest, s.o.Pages)
	s.pool.SetLimit(limit)
	if s.tree != nil {
		s.tree.LimitSlots(max(s.o.GuaranteedStates, s.tree.TouchedSlots()) +
			atMost(bytes, slotBytes, s.o.StateSlots))
	}
}

// conversation returns the pages that are promised or were written, and as many of those that a
// sequence of the maximum length lacks as fit into bytes.
func (s *Scheduler) conversation(bytes int64) prefix.Amount {
	has := larger(s.Promised(), s.pool.Peak())
	lacks, sizes := larger(s.o.Guaranteed.Minus(has), prefix.Amount{}), s.o.PageBytes
	start := atMost(bytes, sizes.Start, lacks.Start)
	if has.Start += start; start < lacks.Start {
		return has
	}
	has.Rest += atMost(bytes-int64(start)*sizes.Start, sizes.Rest, lacks.Rest)
	return has
}

// larger returns the larger number of pages of each kind.
func larger(a, b prefix.Amount) prefix.Amount {
	return prefix.Amount{Start: max(a.Start, b.Start), Rest: max(a.Rest, b.Rest)}
}

// atMost returns how many pieces of the given size fit into bytes, at most so many. Pieces without
// a size take no memory.
func atMost(bytes, size int64, most int) int {
	if size <= 0 {
		return most
	}
	return int(min(max(bytes, 0)/size, int64(most)))
}

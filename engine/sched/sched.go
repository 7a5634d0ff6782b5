// Package sched decides which tokens go through the model next: continuous batching with chunked prefill. It is bookkeeping
// only, without a device or a clock, so that every decision can be tested.
//
// A sequence waits until a slot and pages for its tokens are free, then runs until its owner removes it. Each step takes one
// token of every sequence that is decoding, oldest first, then fills what is left of the step with prompt tokens. When pages run
// out, the sequence that would be missed least (lowest priority, then newest) gives all of its own back and waits to be computed
// again; by the exactness rule its text does not change.
package sched

import (
	"cmp"
	"slices"
)

// Sequence is one request's tokens and the memory that holds them. The owner appends generated tokens and advances Computed
// after each step; the scheduler alone touches the rest while the sequence is queued.
type Sequence struct {
	Tokens   []int32 // prompt, then what was generated
	Computed int     // of Tokens, how many have been through the model
	Priority int     // larger goes first

	Pages []int32 // page table; holds at least Computed positions
	Slot  int32   // recurrent state, while running

	Owner any // the owner's own, not looked at here

	arrival uint64
	running bool
}

// Options are the limits. All fields are needed.
type Options struct {
	Pages       int // in the pool
	PageTokens  int // positions a page holds
	Slots       int // sequences that may run at once
	ChunkTokens int // most prompt tokens of a step
	// MixedChunkTokens is the same for steps that also decode: it bounds how long a prompt being read can stall running streams.
	MixedChunkTokens int
}

// Work is tokens [From, To) of a sequence, to go through the model in this step. With To == len(Tokens) the sequence wants its next
// token.
type Work struct {
	Seq      *Sequence
	From, To int
}

// Scheduler holds the queues. It is not safe for concurrent use.
type Scheduler struct {
	o       Options
	free    []int32 // pages
	slots   []int32
	waiting []*Sequence // by priority, then arrival
	running []*Sequence // by admission
	arrived uint64
	peak    int // most pages in use at once
	work    []Work
	order   []*Sequence
	// Preemptions counts sequences that had to give their pages back.
	Preemptions int
}

// New makes a scheduler whose pages and slots are all free.
func New(o Options) *Scheduler {
	s := &Scheduler{o: o}
	for p := o.Pages - 1; p >= 0; p-- {
		s.free = append(s.free, int32(p))
	}
	for i := o.Slots - 1; i >= 0; i-- {
		s.slots = append(s.slots, int32(i))
	}
	return s
}

// MaxTokens is the longest sequence that can ever run.
func (s *Scheduler) MaxTokens() int { return s.o.Pages * s.o.PageTokens }

// Counts are the sequences in each queue and the pages in use.
func (s *Scheduler) Counts() (running, waiting, usedPages int) {
	return len(s.running), len(s.waiting), s.o.Pages - len(s.free)
}

// PeakPages is the most pages that were in use at once. Freed pages are given out again first, so no others were ever touched.
func (s *Scheduler) PeakPages() int { return s.peak }

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
}

// Remove takes a sequence out, whatever its state, and frees its memory at once.
func (s *Scheduler) Remove(q *Sequence) {
	if i := slices.Index(s.running, q); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
		s.release(q)
	} else if i := slices.Index(s.waiting, q); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

func (s *Scheduler) release(q *Sequence) {
	s.free = append(s.free, q.Pages...)
	s.slots = append(s.slots, q.Slot)
	q.Pages, q.Slot, q.running = q.Pages[:0], -1, false
}

// Next plans a step. The slice is reused by the next call; it is empty when nothing can be done.
func (s *Scheduler) Next() []Work {
	s.work = s.work[:0]
	s.order = append(s.order[:0], s.running...) // reserve may preempt any of them meanwhile
	for _, q := range s.order {
		if q.running && len(q.Tokens)-q.Computed == 1 && s.reserve(q, len(q.Tokens)) {
			s.work = append(s.work, Work{q, q.Computed, len(q.Tokens)})
		}
	}
	s.dropPreempted()
	budget := s.o.ChunkTokens
	if len(s.work) > 0 {
		budget = s.o.MixedChunkTokens
	}
	for _, q := range s.order {
		if budget > 0 && q.running && len(q.Tokens)-q.Computed > 1 {
			budget -= s.prefill(q, budget)
		}
	}
	for len(s.waiting) > 0 && len(s.slots) > 0 && budget > 0 {
		q := s.waiting[0]
		if s.pagesFor(len(q.Tokens)) > len(s.free) {
			break
		}
		s.waiting = slices.Delete(s.waiting, 0, 1)
		q.Slot, q.running = s.slots[len(s.slots)-1], true
		s.slots = s.slots[:len(s.slots)-1]
		s.running = append(s.running, q)
		budget -= s.prefill(q, budget)
	}
	s.dropPreempted()
	return s.work
}

// prefill plans up to budget tokens of q and returns how many.
func (s *Scheduler) prefill(q *Sequence, budget int) int {
	to := min(q.Computed+budget, len(q.Tokens))
	if !s.reserve(q, to) {
		return 0
	}
	s.work = append(s.work, Work{q, q.Computed, to})
	return to - q.Computed
}

func (s *Scheduler) pagesFor(tokens int) int {
	return (tokens + s.o.PageTokens - 1) / s.o.PageTokens
}

// reserve gives q pages for its first so many tokens, preempting others if it must. It reports false when q itself was the one
// to yield.
func (s *Scheduler) reserve(q *Sequence, tokens int) bool {
	for need := s.pagesFor(tokens) - len(q.Pages); need > len(s.free); {
		victim := s.running[0]
		for _, r := range s.running[1:] {
			if r.Priority < victim.Priority || r.Priority == victim.Priority && r.arrival > victim.arrival {
				victim = r
			}
		}
		s.preempt(victim)
		if victim == q {
			return false
		}
	}
	for s.pagesFor(tokens) > len(q.Pages) {
		q.Pages = append(q.Pages, s.free[len(s.free)-1])
		s.free = s.free[:len(s.free)-1]
	}
	s.peak = max(s.peak, s.o.Pages-len(s.free))
	return true
}

func (s *Scheduler) preempt(q *Sequence) {
	s.running = slices.Delete(s.running, slices.Index(s.running, q), slices.Index(s.running, q)+1)
	s.release(q)
	q.Computed = 0
	s.Preemptions++
	s.enqueue(q)
}

// dropPreempted removes work planned for sequences that have lost their pages since.
func (s *Scheduler) dropPreempted() {
	s.work = slices.DeleteFunc(s.work, func(w Work) bool { return !w.Seq.running })
}

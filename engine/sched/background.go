package sched

// Background sequences are those of batches: nobody waits for a token of theirs. They take what
// other sequences leave:
//
//   - A background sequence is admitted only while no other sequence waits.
//   - Another sequence that lacks a slot or pages preempts background sequences, the newest first.
//     It waits for none of them.
//   - A step with rows of others has none of the background, unless ShareSteps allows it. The owner
//     measures what such a step costs the others (engine/loop/background.go).
//   - A step of the background alone has at most MixedChunkTokens of prompts, so that a sequence
//     that arrives meanwhile waits no longer than beside any other prompt. BackgroundChunkTokens is
//     a lower limit where such a step cannot be stopped.
//
// None of this changes a bit of an answer, because the bits of a token do not depend on the batch.

import "headroom/engine/prefix"

// ShareSteps says whether the next steps may compute a little of background sequences although
// others decode in them.
func (s *Scheduler) ShareSteps(on bool) { s.shares = on }

// foreground returns the number of running sequences that are not in the background.
func (s *Scheduler) foreground() (n int) {
	for _, q := range s.running {
		if !q.Background {
			n++
		}
	}
	return n
}

// newestBackground returns the running background sequence that is preempted first; nil: none.
func (s *Scheduler) newestBackground() (newest *Sequence) {
	for _, q := range s.running {
		if q.Background && (newest == nil || order(q, newest) > 0) {
			newest = q
		}
	}
	return newest
}

// slotFor reports whether a sequence of a class could get a slot.
func (s *Scheduler) slotFor(background bool) bool {
	return len(s.slots) > 0 || !background && s.newestBackground() != nil
}

// makeRoom frees pages for q by eviction. If q is not in the background, it also preempts
// background sequences. It reports whether enough pages are free.
func (s *Scheduler) makeRoom(q *Sequence, pages prefix.Amount) bool {
	for !s.evict(pages) {
		victim := s.newestBackground()
		if q.Background || victim == nil {
			return false
		}
		s.preempt(victim)
	}
	return true
}

// cachePreempted adds what a background sequence has computed to the prefix tree, so that it goes
// on from there unless the pages are needed. A recurrent state would have to be copied first.
func (s *Scheduler) cachePreempted(q *Sequence) {
	if !q.Background || q.NoCache || s.tree == nil || s.o.Recurrent {
		return
	}
	known := q.Exact()
	for known > 0 && q.Tokens[known-1] < 0 {
		known--
	}
	if known > 0 {
		s.tree.In(q.Space).Insert(q.Tokens[:known], q.Pages, q.Private)
	}
}

// planBackground plans the rows of background sequences, after those of all others. Of these, the
// first decoding works decode.
func (s *Scheduler) planBackground(decoding int) {
	alone := len(s.work) == 0 && s.foreground() == 0
	if !alone {
		for _, q := range s.running {
			if q.Background {
				q.dropDrafts(0)
			}
		}
		if !s.mayShare(decoding) {
			return
		}
	}
	left, chunk := s.o.ChunkTokens, s.o.MixedChunkTokens
	switch {
	case !alone:
		left, chunk = s.room, min(chunk, s.o.PageTokens)
	case s.o.WholePrompts:
		chunk = left
	case s.o.BackgroundChunkTokens > 0:
		chunk = min(chunk, s.o.BackgroundChunkTokens)
	}
	left = s.planDecode(left, true)
	s.room = left
	s.planPrefill(min(chunk, left), true)
}

// mayShare reports whether the planned step of others may have background rows: all of its rows
// decode, so that its cost is known, and ShareSteps allows it.
func (s *Scheduler) mayShare(decoding int) bool {
	if !s.shares || s.o.WholePrompts || decoding == 0 || len(s.work) > decoding {
		return false
	}
	for _, w := range s.work {
		if w.To-w.From-w.Drafts > 1 {
			return false
		}
	}
	return true
}

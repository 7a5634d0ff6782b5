package sched

// Drafts are tokens that were proposed to follow a decoding sequence (engine/draft). One step
// computes the last token and its drafts, and the owner then says how many of them the model would
// have chosen. The others never were: what they wrote to pages is overwritten by the tokens that
// come instead, and nobody sees it before, since no page is shared beyond Computed. A recurrent
// state cannot be taken back, so the step keeps the state before each draft in a slot of its own,
// and the sequence goes on in the slot that has the state after its last true token. No state is
// copied back.
//
// Drafts use memory that is free. They neither evict a prefix nor preempt a sequence: their pages
// are allocated after all others of the step, and those with nothing but wrong drafts are free
// after it.

// dropDrafts removes the drafts after the first n.
func (q *Sequence) dropDrafts(n int) {
	if n < q.Drafts {
		q.Tokens = q.Tokens[:len(q.Tokens)-(q.Drafts-n)]
		q.Drafts = n
	}
}

// planDrafts adds drafts to works of the planned step, of which left rows are left, and returns how
// many are left then: at least half, so that prompts go on. It drops the other drafts.
func (s *Scheduler) planDrafts(work []Work, left int) int {
	most := min(s.o.DraftTokens, left/2)
	if s.o.States {
		most = min(most, len(s.spare))
	}
	for i := range work {
		w := &work[i]
		w.Seq.dropDrafts(most)
		w.Drafts = w.Seq.Drafts
		w.To, most, left = w.To+w.Drafts, most-w.Drafts, left-w.Drafts
	}
	return left
}

// placeDrafts gives the drafts of the planned step pages, and slots for the states before them. It
// drops those for which no page is free.
func (s *Scheduler) placeDrafts() {
	for i := range s.work {
		w := &s.work[i]
		q, plain := w.Seq, w.To-w.Drafts
		for q.Drafts > 0 && !s.pool.Free().Covers(s.need(len(q.Pages), plain+q.Drafts)) {
			q.dropDrafts(q.Drafts - 1)
		}
		if w.Drafts == 0 {
			continue
		}
		w.Drafts, w.To = q.Drafts, plain+q.Drafts
		s.fill(q, w.To)
		if s.o.States {
			w.Keeps = s.statesBefore(w)
		}
	}
}

// statesBefore takes the slots for the states before the drafts of w.
func (s *Scheduler) statesBefore(w *Work) []Keep {
	q := w.Seq
	q.states = q.states[:0]
	for i := range w.Drafts {
		at := len(s.spare) - 1
		q.states = append(q.states, Keep{w.To - w.Drafts + i, s.spare[at]})
		s.spare = s.spare[:at]
	}
	s.fresh[1] = min(s.fresh[1], len(s.spare))
	return q.states
}

// Trim drops the drafts of w after the first n, before the step is launched.
func (s *Scheduler) Trim(w *Work, n int) {
	q := w.Seq
	if n >= w.Drafts {
		return
	}
	if s.o.States {
		for _, k := range w.Keeps[n:] {
			s.spare = append(s.spare, k.Slot)
		}
		w.Keeps = w.Keeps[:n]
	}
	w.To -= w.Drafts - n
	q.dropDrafts(n)
	w.Drafts = n
	s.freePages(q, w.To)
}

// freePages frees the pages of a sequence after those of its first tokens.
func (s *Scheduler) freePages(q *Sequence, tokens int) {
	for n := len(q.Pages) - 1; n >= s.pagesFor(tokens); n-- {
		s.pool.Unref(q.Pages[n])
		q.Pages = q.Pages[:n]
	}
}

// Accept records that the first n drafts of w were what the model chose. Advance has dropped all
// drafts from the tokens, and has called Accept for n = 0. The owner appends the tokens that the
// model chose, and calls Accept for 1, 2 and so on, as long as these are the drafts.
func (s *Scheduler) Accept(w Work, n int) {
	q := w.Seq
	q.Computed = w.From + 1 + n
	if !s.o.States {
		return
	}
	// Of the slots of w, q has the one with the state at Computed. At first that is the state after
	// all drafts, which Keeps[0] has from the first call on until the last.
	at := n
	if n == w.Drafts {
		at = 0
	}
	w.Keeps[at].Slot, q.Slot = q.Slot, w.Keeps[at].Slot
}

// EndDrafts frees the slots that w used for its drafts, and the pages that have no token but wrong
// drafts. The owner calls it after Accept, even if the sequence has been removed.
func (s *Scheduler) EndDrafts(w Work) {
	for _, k := range w.Keeps {
		s.spare = append(s.spare, k.Slot)
	}
	if q := w.Seq; q.running {
		s.freePages(q, q.Computed)
	}
}

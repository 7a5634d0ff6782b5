package sched

// Drafts are tokens that were proposed to follow a decoding sequence (engine/draft). One step
// computes the last token and its drafts, and the owner then says how many of them the model would
// have chosen. The others never were: what they wrote to pages is overwritten by the tokens that
// come instead, and nobody sees it before, since no page is shared beyond Computed. A recurrent
// state cannot be taken back, so the step keeps the state before each draft in a slot of its own,
// and the sequence goes on in the slot that has the state after its last true token. No state is
// copied back.
//
// Drafts use memory that is free. They neither evict a prefix nor preempt a sequence.

// dropDrafts removes the drafts after the first n.
func (q *Sequence) dropDrafts(n int) {
	if n < q.Drafts {
		q.Tokens = q.Tokens[:len(q.Tokens)-(q.Drafts-n)]
		q.Drafts = n
	}
}

// limitDrafts drops the drafts for which there is no room: more than most, or more than there are
// free slots or pages for.
func (s *Scheduler) limitDrafts(q *Sequence, most int) {
	if q.Drafts == 0 {
		return
	}
	if s.o.States {
		most = min(most, len(s.spare))
	}
	q.dropDrafts(most)
	for q.Drafts > 0 && !s.pool.Free().Covers(s.need(len(q.Pages), q.Computed+1+q.Drafts)) {
		q.dropDrafts(q.Drafts - 1)
	}
}

// withStates gives w the slots for the states before its drafts.
func (s *Scheduler) withStates(w Work) Work {
	if !s.o.States || w.Drafts == 0 {
		return w
	}
	q := w.Seq
	q.states = q.states[:0]
	for i := range w.Drafts {
		at := len(s.spare) - 1
		q.states = append(q.states, Keep{w.To - w.Drafts + i, s.spare[at]})
		s.spare = s.spare[:at]
	}
	w.Keeps = q.states
	return w
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

// EndDrafts frees the slots that w used for its drafts. The owner calls it after Accept, even if
// the sequence has been removed.
func (s *Scheduler) EndDrafts(w Work) {
	for _, k := range w.Keeps {
		s.spare = append(s.spare, k.Slot)
	}
}

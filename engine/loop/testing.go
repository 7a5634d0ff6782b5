package loop

import (
	"cmp"
	"fmt"
	"time"

	"headroom/engine/batch"
	"headroom/engine/runner"
)

// CheckIdle returns an error unless every page in use belongs to the prefix tree and every state
// slot is accounted for. No request may be in flight; the block store may be reading and writing.
// It is for tests.
func (l *Loop) CheckIdle() error {
	answer := make(chan error, 1)
	var check func()
	check = func() {
		if l.stored.pending > 0 {
			go l.runOnLoop(check) // try again, until the pending reads and writes have ended
			return
		}
		answer <- cmp.Or(l.sched.CheckIdle(), l.drafts.chains.model.checkIdle())
	}
	l.runOnLoop(check)
	return <-answer
}

// checkIdle returns an error unless all memory of the draft model is free or kept. m may be nil.
func (m *draftModel) checkIdle() error {
	if m == nil {
		return nil
	}
	refs, slots := map[int32]int32{}, len(m.slots)
	for _, k := range m.kept {
		for _, p := range k.pages {
			refs[p]++
		}
		if m.Recurrent {
			slots++
		}
	}
	for p, n := range refs {
		if got := m.pool.Refs(p); got != n {
			return fmt.Errorf("loop: page %d of the draft model has %d references, expected %d",
				p, got, n)
		}
	}
	if used := m.pool.Used().Total(); used != len(refs) || slots != m.Slots {
		return fmt.Errorf("loop: the draft model has %d pages in use and %d slots, expected %d "+
			"and %d", used, slots, len(refs), m.Slots)
	}
	return nil
}

// DraftModelRows returns how many rows the draft model has computed. It is for tests.
func (l *Loop) DraftModelRows() int {
	answer := make(chan int, 1)
	l.runOnLoop(func() { answer <- l.drafts.chains.model.rows })
	return <-answer
}

// Stops returns how many steps of the background were stopped. It is for tests.
func (l *Loop) Stops() int {
	answer := make(chan int, 1)
	l.runOnLoop(func() { answer <- l.stops })
	return <-answer
}

// LackingWait makes requests wait so long for memory. No request may be in flight. It is for tests.
func (l *Loop) LackingWait(d time.Duration) { l.lackingWait = d }

// ReplaceRunner replaces the runner with one of the same size. No request may be in flight. It is
// for tests.
func (l *Loop) ReplaceRunner(r *runner.Runner) { l.runner = r }

// OnPause makes the loop call f instead of idling. No request may be in flight. It is for tests.
func (l *Loop) OnPause(f func(time.Duration)) { l.throttled.pause = f }

// OneByOne computes the forced tokens of answers of a given form one after the other. No request
// may be in flight. It is for tests.
func (l *Loop) OneByOne() { l.oneByOne = true }

// AlwaysDraft replaces the drafts with what f proposes after the given tokens, whatever it costs.
// No request may be in flight. It is for tests.
func (l *Loop) AlwaysDraft(f func(tokens []int32) []int32) {
	l.drafts.forced = func(tokens []int32, _ bool) *Drafts { return &Drafts{Tokens: f(tokens)} }
}

// FreeRows makes every pass count as equally long, so that what is proposed does not depend on the
// machine. No request may be in flight. It is for tests.
func (l *Loop) FreeRows() { l.drafts.free = true }

// DraftDepth makes the model's block draft so many tokens for each pass, whatever it costs; 0: as
// many as are worth their time. No request may be in flight. It is for tests.
func (l *Loop) DraftDepth(tokens int) {
	l.drafts.forced = func([]int32, bool) *Drafts { return &Drafts{Block: tokens} }
	if tokens == 0 {
		l.drafts.forced = nil
	}
}

// Shortlist makes the model's block choose from the first and the last tokens of the vocabulary and
// those of the conversation where DraftDepth or Config.Draft decides. No request may be in flight.
// It is for tests.
func (l *Loop) Shortlist(first, last int) {
	l.drafts.chains.short = &batch.Shortlist{Vocab: l.runner.VocabSize(), First: first, Last: last}
}

// WatchBlocks calls f with what the model's drafter has drafted, and the tokens before it. No
// request may be in flight. It is for tests.
func (l *Loop) WatchBlocks(f func(known, block []int32)) { l.drafts.watch = f }

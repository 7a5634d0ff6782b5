package sched

// A simulated disk for TestScenario. It holds pages and states of sequences (Scheduler.Hold),
// stores their contents a few turns later, and never evicts them. It also fills the pages of a
// promotion a few turns later, or fails. It stores real tokens, so the test finds wrong contents
// and not only wrong counts.

import (
	"slices"
	"testing"

	"headroom/engine/prefix"
)

type disk struct {
	*world
	s        *Scheduler
	stored   [][]int32 // prefixes; with Recurrent, each has a state at its end
	holding  []hold
	promoted []*Promotion
}

type hold struct {
	tokens []int32
	prefix.Held
}

// count adds the references that the disk holds to pages.
func (d *disk) count(pages []int32) {
	if d == nil {
		return
	}
	for _, h := range d.holding {
		for _, p := range h.Pages {
			pages[p]++
		}
	}
}

// busy reports whether a sequence waits for the disk, or for memory that it holds.
func (d *disk) busy(lives []*life) bool {
	return len(d.promoted)+len(d.holding) > 0 ||
		slices.ContainsFunc(lives, func(l *life) bool { return l.q.StorePending })
}

// turn starts and ends some reads and writes.
func (d *disk) turn(t *testing.T, lives []*life) {
	t.Helper()
	if d.o.NoPrefixes {
		return
	}
	if len(d.holding) > 0 && d.r.IntN(2) == 0 {
		d.write(t, d.holding[0])
		d.holding = d.holding[1:]
	}
	if len(d.promoted) > 0 && d.r.IntN(2) == 0 {
		d.read(d.promoted[0])
		d.promoted = d.promoted[1:]
	}
	if len(lives) == 0 {
		return
	}
	l := lives[d.r.IntN(len(lives))]
	switch {
	case d.r.IntN(4) == 0:
		d.holding = append(d.holding, hold{slices.Clone(l.q.Tokens), d.s.Hold(0, l.q.Tokens)})
	case !l.q.running && !l.q.StorePending && len(d.stored) > 0:
		d.find(l.q)
	}
}

// write checks the held pages and states, and stores them.
func (d *disk) write(t *testing.T, h hold) {
	t.Helper()
	if h.Held.Tokens > len(h.tokens) || d.s.pagesFor(h.Held.Tokens) != len(h.Pages) {
		t.Fatalf("%d of %d tokens are held in %d pages", h.Held.Tokens, len(h.tokens), len(h.Pages))
	}
	for i, token := range h.tokens[:h.Held.Tokens] {
		if got := d.pages[h.Pages[i/d.o.PageTokens]][i%d.o.PageTokens]; got != token {
			t.Fatalf("held position %d has token %d, expected %d", i, got, token)
		}
	}
	for _, s := range h.States {
		if !slices.Equal(d.states[s.Slot], h.tokens[:s.Position]) {
			t.Fatalf("the held state at %d of %v was computed from %v", s.Position, h.tokens,
				d.states[s.Slot])
		}
		d.stored = append(d.stored, h.tokens[:s.Position])
	}
	if !d.o.Recurrent {
		d.stored = append(d.stored, h.tokens[:h.Held.Tokens])
	}
	d.s.Release(h.Held)
}

// find looks for a stored prefix of the waiting sequence q that is longer than the one in memory.
// If there is one, it sets q.Stored.
func (d *disk) find(q *Sequence) {
	_, known := d.s.Known(q)
	for _, tokens := range d.stored {
		if n := prefix.Common(tokens, q.Tokens[:len(q.Tokens)-1]); n > known &&
			(n == len(tokens) || !d.o.Recurrent) {
			q.Stored = n
		}
	}
}

// begin takes the new promotions from the scheduler. It fills their memory with -1 until read
// writes the tokens.
func (d *disk) begin(t *testing.T) {
	t.Helper()
	for _, p := range d.s.Promotions() {
		n := len(p.Tokens)
		if p.From > n || p.From < n && p.From%d.o.PageTokens != 0 ||
			len(p.Pages) != d.s.pagesFor(n) || !p.Seq.StorePending {
			t.Fatalf("wrong promotion: %d tokens from %d in %d pages", n, p.From, len(p.Pages))
		}
		for i := p.From; i < len(p.Tokens); i++ {
			d.pages[p.Pages[i/d.o.PageTokens]][i%d.o.PageTokens] = -1
		}
		if p.Slot >= 0 {
			d.states[p.Slot] = []int32{-1}
		}
		d.promoted = append(d.promoted, p)
	}
}

// read fills the memory of a promotion and ends it, sometimes as failed.
func (d *disk) read(p *Promotion) {
	ok := d.r.IntN(4) > 0
	for i := p.From; i < len(p.Tokens); i++ {
		d.pages[p.Pages[i/d.o.PageTokens]][i%d.o.PageTokens] = p.Tokens[i]
	}
	if p.Slot >= 0 {
		d.states[p.Slot] = slices.Clone(p.Tokens)
	}
	d.s.Promoted(p, ok)
}

// finish ends all reads and writes.
func (d *disk) finish(t *testing.T) {
	t.Helper()
	for _, h := range d.holding {
		d.write(t, h)
	}
	for _, p := range d.promoted {
		d.read(p)
	}
	d.holding, d.promoted = nil, nil
}

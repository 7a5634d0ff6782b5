package loop

// Drafts of a drafter of blocks (models.Block). Its step computes a block for each sequence: the
// last token, and a mask for each draft. Each mask's output is the draft at its position. The pass
// then verifies those that are worth their time, from the first on.
//
// A block writes its keys and values to the pages of its positions, in the drafter's layers alone.
// The plan has reserved these pages for the drafts.

import (
	"time"

	"headroom/engine/cache"
	"headroom/engine/sched"
	"headroom/kernels"
)

// trialRows returns how many rows a step of blocks has left for drafts on trial, besides a row of
// each sequence.
func (l *Loop) trialRows(work []sched.Work) int {
	rows := l.config.Sched.DraftTokens
	for i := range work {
		rows -= work[i].Drafts
	}
	return rows
}

// fitsTrial reports whether a draft can be drafted on trial, and takes its row from left. A block
// also writes the position of the draft, whose page the sequence may not have yet.
func (c *chains) fitsTrial(w *sched.Work, left *int) bool {
	if c.block == nil {
		return true
	}
	*left--
	return *left >= 0 && w.To < len(w.Seq.Pages)*cache.PageTokens
}

// stepBlocks drafts the blocks of all active sequences.
func (l *Loop) stepBlocks() error {
	c := &l.drafts.chains
	if len(c.active) == 0 {
		return nil
	}
	began := time.Now()
	c.gatherBlocks()
	if _, err := l.runner.DraftBlocks(c.tokens, c.spans, c.rows); err != nil {
		return err
	}
	c.took = time.Since(began)
	c.times.Observe(len(c.tokens), c.took.Seconds())
	c.usual = c.times.Seconds(len(c.tokens))
	c.round.Steps += c.round.Step(len(c.tokens))
	row := 0
	for i := range c.active {
		a := &c.active[i]
		drafts := a.block()
		l.takeBlock(a, row)
		row += drafts
	}
	return nil
}

// block returns how many tokens are drafted for a sequence.
func (a *chain) block() int {
	if a.trial {
		return 1
	}
	return a.work.Drafts
}

// gatherBlocks sets tokens, spans and rows to those of the blocks of all active sequences.
func (c *chains) gatherBlocks() {
	c.tokens, c.spans, c.rows = c.tokens[:0], c.spans[:0], c.rows[:0]
	for i := range c.active {
		a := &c.active[i]
		q, at, drafts := a.work.Seq, a.work.From, a.block()
		c.spans = append(c.spans, kernels.Span{Row: len(c.tokens), Rows: 1 + drafts, Pos: at,
			Pages: q.Pages, Slot: q.Slot})
		c.tokens = append(c.tokens, q.Tokens[at])
		for range drafts {
			c.rows = append(c.rows, int32(len(c.tokens)))
			c.tokens = append(c.tokens, c.block.Mask)
		}
	}
}

// takeBlock decides how many drafts of a block the pass verifies. row is that of its first draft in
// the step. The first one that is not verified is compared instead, if those before it turn out
// right.
func (l *Loop) takeBlock(a *chain, row int) {
	c := &l.drafts.chains
	r, w := a.work.Seq.Owner.(*request), a.work
	tokens := w.Seq.Tokens[w.From+1:][:w.Drafts]
	c.chance = c.chance[:0]
	for i := range a.block() {
		token, probability := l.runner.Drafted(row + i)
		c.chance = append(c.chance, probability)
		if a.trial {
			r.tried, r.triedSure = token, probability
			return
		}
		if !r.given {
			tokens[i], r.drafts[i] = token, token
		}
	}
	verified, right := len(c.chance), 0.0
	if !r.forced {
		verified, right = c.round.TakeBlock(&r.chain, c.chance)
	}
	c.round.Add(verified, right, 0)
	r.sureness = append(r.sureness, c.chance[:verified]...)
	if r.chainTry = verified < len(c.chance); r.chainTry {
		r.tried, r.triedSure = r.drafts[verified], c.chance[verified]
		r.why = c.round.WhyNotTaken(r.chain.Rate(c.chance[0]), c.round.Step(len(c.tokens)))
	}
	if l.drafts.watch != nil && !r.given {
		l.drafts.watch(w.Seq.Tokens[:w.From+1], tokens)
	}
	l.sched.Trim(w, verified)
}

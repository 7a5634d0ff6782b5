package loop

// Drafts of the model's own block or its assistant (models.Drafter), of a draft model
// (draftmodel.go), or of a drafter of blocks (block.go). Each is called the drafter here. It drafts
// one token of each sequence at a time, or a block of them, between the planning of a pass and its
// launch. The plan has reserved rows, pages and slots for as many drafts as may be worth their
// time. After each draft, its probability decides whether the pass verifies it and whether another
// one is drafted. What is not needed is given back.

import (
	"cmp"
	"time"

	"headroom/engine/cache"
	"headroom/engine/draft"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/engine/sched"
	"headroom/kernels"
)

// A pass keeps a hidden state for each row that may be that of the last right draft.
const _ = uint(cache.RecentTokens - draft.MaxTokens - 1)

// chains is the state of the loop that concerns the drafter. The slices are reused.
type chains struct {
	enabled  bool
	heads                  // which head its steps compute
	model    *draftModel   // nil: another drafter
	block    *models.Block // nil: it is no drafter of blocks
	most     int           // maximum number of drafts in a pass
	all      draft.Chain   // of all requests
	times    draft.Times   // of steps of the drafter
	round    draft.Round   // the pass that is being planned
	drafting int           // rows of its first step before that pass
	took     time.Duration // of its steps before that pass
	usual    float64       // seconds that such steps take on average

	active []chain
	tokens []int32
	spans  []kernels.Span
	from   []int32
	rows   []int32   // of a step of blocks, whose logits are computed
	chance []float64 // the probabilities of the drafts of one block
}

// chain is a sequence that the drafter drafts for.
type chain struct {
	work   *sched.Work
	row    int32   // its row in the last step of the drafter
	count  int     // drafts that the pass will verify, so far
	chance float64 // the probability that all of them are right
	trial  bool    // its only draft is compared and not verified
}

// init sets which drafter there is. model is set before.
func (c *chains) init(o *Config) {
	c.block, c.most = o.Runner.Block(), draft.MaxTokens
	switch {
	case c.model != nil:
		c.most = min(c.most, c.model.Drafts)
	case c.block != nil:
		c.most = min(c.most, c.block.Drafts, cmp.Or(o.AttachedDrafts, draft.MaxTokens))
	default:
		c.most = min(c.most, cmp.Or(o.AttachedDrafts, draft.MaxTokens))
	}
	if c.model == nil {
		c.short = o.Runner.Shortlist()
	}
	c.enabled = o.Runner.Drafts() || c.block != nil || c.model != nil
}

// way returns the way to decode ahead that is the drafter's.
func (c *chains) way() string {
	switch {
	case c.model != nil:
		return draft.WayDraft
	case c.block != nil:
		return draft.WayDFlash
	}
	return draft.WayMTP
}

// mostAfter returns how many tokens may be drafted after known ones, at most most.
func (c *chains) mostAfter(known []int32, most int) int {
	most = min(most, c.most)
	if c.model != nil {
		most = min(most, c.model.ContextTokens-len(known))
	}
	return most
}

// depth returns how many tokens, up to most, are worth drafting after the known tokens of r, and
// the speed of the pass with them. rows is as in draft.Round.ChainDepth. If a draft model first has
// to read tokens, unread is their number; -1: it cannot draft for r.
func (c *chains) depth(r *request, known []int32, most, rows int) (depth, unread int,
	speed float64) {
	left, reading := most, 0.0
	most = c.mostAfter(known, most)
	if c.block != nil {
		depth, speed = c.round.BlockDepth(&r.chain, most, rows-1)
		return depth, 0, speed
	}
	if m := c.model; m != nil {
		if unread = m.unread(r, known); unread < 0 {
			return 0, unread, 0
		}
		reading = c.round.Reading(unread, m.reading, r.usage.CompletionTokens, left)
	}
	depth, speed = c.round.ChainDepth(&r.chain, most, rows, reading)
	return depth, unread, speed
}

// why returns why depth is 0, with its arguments and its results; no cause if it is more.
func (c *chains) why(r *request, known []int32, most, rows, depth, unread int) draft.Why {
	left := most
	most = c.mostAfter(known, most)
	switch {
	case depth > 0:
		return draft.Why{}
	case unread < 0 || most < 1:
		return draft.Why{Cause: draft.Beyond}
	case c.block != nil:
		return c.round.WhyNoBlock(&r.chain, most, rows-1)
	}
	reading := 0.0
	if m := c.model; m != nil {
		reading = c.round.Reading(unread, m.reading, r.usage.CompletionTokens, left)
	}
	return c.round.WhyNoChain(&r.chain, most, rows, reading)
}

// try reports whether a trial is due that first reads so many tokens.
func (c *chains) try(unread int) bool {
	perToken := 0.0
	if c.model != nil {
		perToken = c.model.reading
	}
	return c.all.Try(c.round.Trial(unread, perToken))
}

// prepareChain reports whether the drafter can draft so many tokens of r before this pass.
func (l *Loop) prepareChain(r *request, unread, drafts int) bool {
	return l.drafts.chains.model == nil || l.prepareDraftModel(r, unread, drafts)
}

// proposeChain reports whether the drafter's drafts are expected to make the pass faster than
// speed. If so, it appends room for them to r.drafts. If not, and speed is 0, it may draft one
// token for trial.
func (l *Loop) proposeChain(r *request, most int, speed float64) bool {
	c := &l.drafts.chains
	if !r.chaining {
		return false
	}
	if most < 1 {
		r.why = draft.Why{Cause: draft.Short}
		return false
	}
	depth, unread, chainSpeed := c.depth(r, r.seq.Tokens, most, c.drafting+1)
	r.why = c.why(r, r.seq.Tokens, most, c.drafting+1, depth, unread)
	if unread < 0 {
		return false
	}
	if depth == 0 {
		l.proposeTrial(r, unread, speed)
		return false
	}
	if chainSpeed <= speed {
		return false
	}
	room := draft.Room(depth, c.mostAfter(r.seq.Tokens, most))
	if !l.prepareChain(r, unread, room) {
		r.awaited = r.piece > 0
		return false
	}
	c.all.Used()
	if c.drafting++; c.block != nil {
		c.drafting += room
	}
	r.chainDepth = depth
	for range room {
		r.drafts = append(r.drafts, 0)
	}
	return true
}

// proposeTrial has the drafter draft one token for trial, if one is due. A draft model may have to
// read tokens first, and the trial is then due again.
func (l *Loop) proposeTrial(r *request, unread int, speed float64) {
	due := speed == 0 && unread <= trialReading && (r.chainDue || l.drafts.chains.try(unread))
	why := r.why
	r.chainTry = due && l.prepareChain(r, unread, 1)
	r.why = why // a trial is no draft
	r.chainDue = due && !r.chainTry && r.piece > 0
	r.awaited = r.chainTry || r.chainDue
}

// draftChains drafts the tokens for which propose has made room in the planned work.
func (l *Loop) draftChains(work []sched.Work) (err error) {
	defer func() {
		if err != nil {
			l.releaseDraftModel()
		}
	}()
	defer recovered(&err)
	c := &l.drafts.chains
	c.took, c.usual = 0, 0
	if !c.enabled {
		return nil
	}
	c.active = c.active[:0]
	trials := l.trialRows(work)
	for i := range work {
		w := &work[i]
		r := w.Seq.Owner.(*request)
		switch {
		case r.chainDepth > 0 && w.Drafts > 0:
			c.active = append(c.active, chain{work: w, chance: 1})
			r.sureness = r.sureness[:0]
		case r.chainTry && w.Drafts == 0 && w.To == w.From+1 && c.fitsTrial(w, &trials):
			c.active = append(c.active, chain{work: w, chance: 1, trial: true})
		default:
			r.chainTry = false
		}
	}
	if c.block != nil {
		return l.stepBlocks()
	}
	step := l.stepBlock
	if c.model != nil {
		step = l.stepDraftModel
	}
	for n := 0; (n == 0 || len(c.active) > 0) && err == nil; n++ {
		err = l.stepChains(n, step)
	}
	return err
}

// stepBlock drafts one token of each active sequence with the model's own block or its assistant.
// It returns the runner that has them; nil: there was nothing to do.
func (l *Loop) stepBlock(step int) (by *runner.Runner, err error) {
	c := &l.drafts.chains
	if len(c.active) == 0 {
		return nil, nil
	}
	c.tokens, c.spans, c.from = c.tokens[:0], c.spans[:0], c.from[:0]
	for i, a := range c.active {
		q, at := a.work.Seq, a.work.From+step
		c.tokens, c.from = append(c.tokens, q.Tokens[at]), append(c.from, a.row)
		if l.runner.InPlace() {
			at = a.work.From - 1
		}
		c.spans = append(c.spans,
			kernels.Span{Row: i, Rows: 1, Pos: at, Pages: q.Pages, Slot: q.Slot})
	}
	from := c.from
	if step == 0 {
		from = nil
	}
	_, err = l.runner.DraftListed(c.tokens, c.spans, from, c.shortlist(c.active))
	return l.runner, err
}

// stepChains drafts one token of each active sequence, and keeps those active that go on.
func (l *Loop) stepChains(step int, do func(step int) (*runner.Runner, error)) error {
	c := &l.drafts.chains
	began := time.Now()
	by, err := do(step)
	if err != nil || by == nil {
		return err
	}
	rows := len(c.active)
	going := c.active[:0]
	for i, a := range c.active {
		token, probability := by.Drafted(i)
		token = c.tokenOf(token)
		a.row = int32(i)
		if l.takeDraft(&a, token, probability, rows) {
			going = append(going, a)
		} else if !a.trial {
			l.sched.Trim(a.work, a.count)
		}
	}
	c.active = going
	took := time.Since(began)
	c.took += took
	if c.model != nil {
		c.usual += c.model.observe(&c.times, len(c.tokens), took)
		return nil
	}
	times := c.stepTimes()
	times.Observe(rows, took.Seconds())
	c.usual += times.Seconds(rows)
	c.observeHead()
	return nil
}

// takeDraft decides whether the pass verifies a draft, and reports whether the drafter goes on.
func (l *Loop) takeDraft(a *chain, token int32, probability float64, rows int) bool {
	c := &l.drafts.chains
	r := a.work.Seq.Owner.(*request)
	r.tried, r.triedSure = token, probability
	if a.trial {
		return false
	}
	round := &c.round
	step, left := round.Step(rows)/float64(rows), a.work.Drafts-a.count-1
	round.Steps += step
	chance := a.chance * r.chain.Rate(probability)
	if !r.forced && !round.Take(&r.chain, chance, step, left) {
		r.chainTry, r.why = true, round.WhyNotTaken(chance, step)
		return false
	}
	round.Add(1, chance, 0)
	drafted := token
	if r.given {
		token = r.drafts[a.count]
	}
	a.work.Seq.Tokens[a.work.From+1+a.count] = token
	r.drafts[a.count], r.sureness = token, append(r.sureness, probability)
	a.count, a.chance = a.count+1, chance
	if l.drafts.watch != nil && c.model == nil {
		l.watchChain(a, drafted)
	}
	return left > 0 && (r.forced || round.More(&r.chain, chance, step, left))
}

// watchChain tells a test what has been drafted, or drafted first if other drafts are verified.
func (l *Loop) watchChain(a *chain, drafted int32) {
	r := a.work.Seq.Owner.(*request)
	known, drafts := a.work.Seq.Tokens[:a.work.From+1], r.drafts[:a.count]
	switch {
	case !r.given:
		l.drafts.watch(known, drafts)
	case a.count == 1:
		l.drafts.watch(known, []int32{drafted})
	}
}

// compareTrial learns from a draft that was not verified, now that the token after the last right
// one is known.
func (r *request) compareTrial() {
	if r.chainTry && !r.ended {
		r.chain.Observe(r.triedSure, r.seq.Tokens[len(r.seq.Tokens)-1] == r.tried)
		r.chainTry = false
	}
}

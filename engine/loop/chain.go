package loop

// Drafts of the model's own block (models.Drafter). It drafts one token of each sequence at a time,
// between the planning of a pass and its launch. The plan has reserved rows, pages and slots for as
// many drafts as may be worth their time. After each draft, its probability decides whether the
// pass verifies it and whether another one is drafted. What is not needed is given back.

import (
	"time"

	"headroom/engine/draft"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/kernels"
)

// chains is the state of the loop that concerns the block. The slices are reused.
type chains struct {
	enabled  bool
	all      draft.Chain   // of all requests
	times    draft.Times   // of steps of the block
	round    draft.Round   // the pass that is being planned
	drafting int           // sequences of that pass that the block drafts for
	took     time.Duration // of the block's steps before that pass

	active []chain
	tokens []int32
	spans  []kernels.Span
	from   []int32
}

// chain is a sequence that the block drafts for.
type chain struct {
	work   *sched.Work
	row    int32   // its row in the last step of the block
	count  int     // drafts that the pass will verify, so far
	chance float64 // the probability that all of them are right
	trial  bool    // its only draft is compared and not verified
}

// proposeChain reports whether the block's drafts are expected to make the pass faster than speed.
// If so, it appends room for them to r.drafts. If not, and speed is 0, the block may draft one
// token for trial.
func (l *Loop) proposeChain(r *request, most int, speed float64) bool {
	c := &l.drafts.chains
	if !r.chaining || most < 1 {
		return false
	}
	depth, chainSpeed := c.round.ChainDepth(&r.chain, min(most, draft.MaxTokens), c.drafting+1)
	if depth == 0 {
		r.chainTry = speed == 0 && (r.chainDue || c.all.Try())
		r.awaited, r.chainDue = r.chainTry, false
		return false
	}
	if chainSpeed <= speed {
		return false
	}
	c.all.Used()
	c.drafting++
	r.chainDepth = depth
	room := 2*depth + 1 // a sure drafter goes on beyond what is worth its time on average
	for range min(room, most, draft.MaxTokens) {
		r.drafts = append(r.drafts, 0)
	}
	return true
}

// draftChains drafts the tokens for which propose has made room in the planned work.
func (l *Loop) draftChains(work []sched.Work) (err error) {
	defer recovered(&err)
	c := &l.drafts.chains
	c.took = 0
	if !c.enabled {
		return nil
	}
	c.active = c.active[:0]
	for i := range work {
		w := &work[i]
		r := w.Seq.Owner.(*request)
		switch {
		case r.chainDepth > 0 && w.Drafts > 0:
			c.active = append(c.active, chain{work: w, chance: 1})
			r.sureness = r.sureness[:0]
		case r.chainTry && w.Drafts == 0 && w.To == w.From+1:
			c.active = append(c.active, chain{work: w, chance: 1, trial: true})
		default:
			r.chainTry = false
		}
	}
	for step := 0; len(c.active) > 0 && err == nil; step++ {
		err = l.stepChains(step)
	}
	return err
}

// stepChains drafts one token of each active sequence, and keeps those active that go on.
func (l *Loop) stepChains(step int) error {
	c := &l.drafts.chains
	c.tokens, c.spans, c.from = c.tokens[:0], c.spans[:0], c.from[:0]
	for i, a := range c.active {
		q, at := a.work.Seq, a.work.From+step
		c.tokens, c.from = append(c.tokens, q.Tokens[at]), append(c.from, a.row)
		c.spans = append(c.spans,
			kernels.Span{Row: i, Rows: 1, Pos: at, Pages: q.Pages, Slot: q.Slot})
	}
	from, began := c.from, time.Now()
	if step == 0 {
		from = nil
	}
	logits, err := l.runner.Draft(c.tokens, c.spans, from)
	if err != nil {
		return err
	}
	vocab, rows := l.runner.VocabSize(), len(c.active)
	going := c.active[:0]
	for i, a := range c.active {
		token, probability := sample.Likeliest(logits[i*vocab:][:vocab])
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
	c.times.Observe(rows, took.Seconds())
	return nil
}

// takeDraft decides whether the pass verifies a draft, and reports whether the block goes on.
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
		r.chainTry = true
		return false
	}
	round.Add(1, chance, 0)
	if r.given {
		token = r.drafts[a.count]
	}
	a.work.Seq.Tokens[a.work.From+1+a.count] = token
	r.drafts[a.count], r.sureness = token, append(r.sureness, probability)
	a.count, a.chance = a.count+1, chance
	return left > 0 && (r.forced || round.More(&r.chain, chance, step, left))
}

// compareTrial learns from a draft that was not verified, now that the token after the last right
// one is known.
func (r *request) compareTrial() {
	if r.chainTry && !r.ended {
		r.chain.Observe(r.triedSure, r.seq.Tokens[len(r.seq.Tokens)-1] == r.tried)
		r.chainTry = false
	}
}

package loop

// Drafts: tokens that probably come next are computed in the same pass as the token before them
// (engine/draft, and draft.go of engine/sched). The sampler then chooses a token at each row, in
// order and with the state that it would have had, as if the rows were passes. The row after a
// wrong draft is not looked at. So tokens, log-probabilities and random numbers are those of plain
// decoding, with every sampler, and in a form.
//
// Drafts are proposed before a pass is planned. Those of a lookup are known then. For those of the
// model's own block (chain.go) only their number is, and the tokens are drafted once they have
// pages.
//
// Only devices whose passes end before the next one starts have drafts: on a GPU, the next pass is
// launched before the host knows the last token.

import (
	"time"

	"headroom/engine/draft"
	"headroom/engine/sched"
)

// drafts is the state of the loop that concerns drafts.
type drafts struct {
	enabled bool
	lookup  bool // tokens are looked up
	hits    draft.Hits
	times   draft.Times
	chains  chains
	forced  func(tokens []int32) *Drafts // Config.Draft
}

// Drafts are what a pass verifies after the last token of a sequence, if it is not the loop that
// decides.
type Drafts struct {
	Tokens []int32
	// Block is how many tokens the model's own block drafts. The pass verifies these. If there are
	// Tokens, it verifies as many of them instead, and what the block drafts only takes its time. A
	// model without such a block ignores it.
	Block int
}

// index indexes the prompt of a request that may have drafts. What is learnt from it begins with
// what was learnt from all requests. Submit calls it, on its caller's goroutine.
func (d *drafts) index(r *request) {
	if !d.enabled || r.NoDrafts || r.NoAnswer {
		return
	}
	r.drafting = true
	r.hits.Before, r.chain.Before = &d.hits, &d.chains.all
	if d.lookup {
		r.lookup = draft.NewLookup(len(r.Prompt) + min(r.MaxTokens, 4096))
		r.lookup.Extend(r.Prompt, nil)
	}
}

// propose appends drafts to the sequences for which they are worth their time.
func (l *Loop) propose() {
	d := &l.drafts
	if !d.enabled {
		return
	}
	round := &d.chains.round
	*round = draft.Round{Passes: &d.times, Drafter: &d.chains.times}
	for _, r := range l.requests {
		if r.decodes() {
			round.Rows++
		}
	}
	d.chains.drafting = 0
	for _, r := range l.requests {
		r.chainDepth, r.chainTry = 0, false
		if !r.drafting || !r.decodes() {
			continue
		}
		// The last token of an answer is never computed.
		most := min(r.MaxTokens-r.usage.CompletionTokens-1, l.config.Sched.DraftTokens)
		r.drafts = r.drafts[:0]
		if !l.proposeForced(r, most) {
			l.proposeFor(r, most)
		}
		r.seq.Tokens = append(r.seq.Tokens, r.drafts...)
		r.seq.Drafts = len(r.drafts)
	}
}

// proposeForced fills r.drafts as Config.Draft says, and reports whether it decides.
func (l *Loop) proposeForced(r *request, most int) bool {
	d := &l.drafts
	r.forced, r.given = false, false
	if d.forced == nil {
		return false
	}
	f := d.forced(r.seq.Tokens)
	if f == nil {
		return false
	}
	r.forced, most = true, max(most, 0)
	r.drafts = append(r.drafts, f.Tokens...)
	if f.Block > 0 && d.chains.enabled {
		most = min(most, f.Block, draft.MaxTokens)
		r.given, r.chainDepth = len(f.Tokens) > 0, most
		for !r.given && len(r.drafts) < most {
			r.drafts = append(r.drafts, 0)
		}
	}
	r.drafts = r.drafts[:min(len(r.drafts), most)]
	return true
}

// proposeFor fills r.drafts, with at most most tokens, by the drafter that is expected to make the
// pass fastest.
func (l *Loop) proposeFor(r *request, most int) {
	round := &l.drafts.chains.round
	depth, right, speed := 0, 0.0, 0.0
	if r.lookup != nil {
		r.lookup.Extend(r.seq.Tokens, &r.hits)
		depth, right, speed = round.LookupDepth(r.lookup.Match(), most, &r.hits)
	}
	if l.proposeChain(r, most, speed) {
		return
	}
	r.drafts = append(r.drafts, r.lookup.Propose(r.seq.Tokens, depth)...)
	round.Add(len(r.drafts), right, 0)
}

// decodes reports whether the next pass computes the last token of r and no other known one.
func (r *request) decodes() bool {
	return r.usage.CompletionTokens > 0 && r.seq.Ahead == 0 &&
		r.seq.Computed == len(r.seq.Tokens)-1
}

// emitDrafts gets the tokens of a step with drafts: from the row of the token before them, and from
// that of each draft that was right.
func (l *Loop) emitDrafts(r *request, step *step, row int, w sched.Work, now time.Time) error {
	defer l.sched.EndDrafts(w)
	r.usage.DraftTokens += w.Drafts
	l.counters.DraftTokens += int64(w.Drafts)
	for n := 0; ; n++ {
		if n > 0 {
			l.sched.Accept(w, n)
			r.usage.AcceptedTokens++
			l.counters.AcceptedTokens++
		}
		if err := l.emitToken(r, step, row+n, len(r.seq.Tokens), now); err != nil || r.ended {
			return err
		}
		if n == w.Drafts {
			return nil
		}
		right := r.seq.Tokens[len(r.seq.Tokens)-1] == r.drafts[n]
		if r.chainDepth > 0 {
			r.chain.Observe(r.sureness[n], right)
		}
		if !right {
			return nil
		}
	}
}

// observe records the duration of a pass that only decodes.
func (d *drafts) observe(work []sched.Work, took time.Duration) {
	rows := 0
	for _, w := range work {
		if w.To-w.From-w.Drafts != 1 {
			return
		}
		rows += w.To - w.From
	}
	d.times.Observe(rows, took.Seconds())
}

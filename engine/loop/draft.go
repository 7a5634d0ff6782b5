package loop

// Drafts: tokens that probably come next are computed in the same pass as the token before them
// (engine/draft, and draft.go of engine/sched). The sampler then chooses a token at each row, in
// order and with the state that it would have had, as if the rows were passes. The row after a
// wrong draft is not looked at. So tokens, log-probabilities and random numbers are those of plain
// decoding, with every sampler, and in a form.
//
// Drafts are proposed before a pass is planned. Those of a lookup are known then. For those of the
// model's own block or of a draft model (chain.go) only their number is, and the tokens are drafted
// once they have pages.
//
// On a GPU, the next pass is launched before the host knows the last token. A request for which
// drafts would be worth their time then waits for it: its steps are synchronous, as long as that is
// measured to be faster than passes that overlap with the host's work.

import (
	"math"
	"sync/atomic"
	"time"

	"headroom/engine/draft"
	"headroom/engine/sched"
)

// drafts is the state of the loop that concerns drafts.
type drafts struct {
	enabled bool
	way     string // of all requests; see draft.CheckWay
	hits    draft.Hits
	others  draft.Others // conversations that may be kept, for lookups
	times   draft.Times
	cost    draft.Cost // of the step that is being completed
	chains  chains
	gain    atomic.Uint64                              // draft.Round.Gain, as math.Float64bits
	forced  func(tokens []int32, running bool) *Drafts // Config.Draft

	// For tests: every pass counts as equally long; watch, unless nil, is told what is drafted.
	free  bool
	watch func(known, block []int32)
}

// requestDrafts is the state of a request that concerns drafts.
type requestDrafts struct {
	drafting bool          // tokens may be drafted
	lookup   *draft.Lookup // nil: none are looked up
	hits     draft.Hits    // what is known about lookups
	chaining bool          // the drafter (chain.go) may draft
	chain    draft.Chain   // what is known about that
	list     *draft.List   // the tokens from which that may choose; nil: only all
	saved    time.Duration // by drafts so far; negative: they cost time
	barred   draft.Cause   // why there cannot be any; NoCause: there can
	whys     draft.Whys    // why passes had none
	draftMemory

	// The drafts of the step that is planned or runs:
	drafts     []int32   // their tokens
	chainDepth int       // how many the drafter is expected to draft; 0: none
	sureness   []float64 // the probabilities that the drafter gave them
	why        draft.Why // why there are none, or will be none if there is no room for them
	awaited    bool      // the host needs the next token before it plans another pass
	forced     bool      // Config.Draft has decided on them
	given      bool      // it has named them, and the drafter only takes its time
	predicted  bool      // they are a part of Request.Prediction

	// If chainTry, the drafter has drafted the token tried with the probability triedSure. It is
	// compared and not verified.
	chainTry  bool
	tried     int32
	triedSure float64
	chainDue  bool // a trial is due once the last token is known
}

// Drafts are what a pass verifies after the last token of a sequence, if it is not the loop that
// decides.
type Drafts struct {
	Tokens []int32
	// Block is how many tokens the model's own block or the draft model drafts. The pass verifies
	// these. If there are Tokens, it verifies as many of them instead, and what is drafted only
	// takes its time. A model without either ignores it, and a draft model that has not read the
	// sequence yet.
	Block int
	// WholeHead has the block compute the whole head, and not only a shortlist of the vocabulary.
	WholeHead bool
}

// index indexes the prompt of a request that may have drafts. What is learnt from it begins with
// what was learnt from all requests. Submit calls it, on its caller's goroutine.
func (d *drafts) index(r *request) {
	switch {
	case !d.enabled && (d.way == "" || d.way == draft.WayOff):
		r.barred = draft.Off
	case !d.enabled:
		r.barred = draft.Unsupported
	case r.Speculate == draft.WayOff:
		r.barred = draft.AskedOff
	}
	if r.barred != draft.NoCause || r.NoAnswer {
		return
	}
	allows := func(way string) bool {
		for _, w := range []string{d.way, r.Speculate} {
			if w != way && w != draft.WayAuto && w != "" {
				return false
			}
		}
		return true
	}
	r.drafting, r.chaining = true, d.chains.enabled && allows(d.chains.way())
	r.hits.Before, r.chain.Before = &d.hits, &d.chains.all
	if allows(draft.WayLookup) {
		r.lookup = draft.NewLookup(r.Prediction, len(r.Prompt)+min(r.MaxTokens, 4096))
		r.lookup.Owner, r.lookup.Prompt = r.Owner, len(r.Prompt)
		r.lookup.Extend(r.Prompt, nil, nil)
	}
	if r.lookup == nil && !r.chaining {
		r.barred = draft.AskedOther
	}
	if s := d.chains.short; s != nil && r.chaining {
		r.list = draft.NewList(*s, r.Prompt)
	}
}

// remember lets lookups of the same owner find the tokens of a request that has ended. Nothing of a
// private request is found.
func (d *drafts) remember(r *request) {
	if r.lookup != nil && !r.Private && !r.NoCache {
		d.others.Add(r.Owner, r.seq.Tokens[:r.seq.Computed], r.usage.CachedTokens)
	}
}

// SetDraftGain sets how many times as fast as plain decoding a pass with drafts has to be, by what
// is expected of it; 0: draft.DefaultGain.
func (l *Loop) SetDraftGain(gain float64) { l.drafts.gain.Store(math.Float64bits(max(gain, 0))) }

// propose appends drafts to the sequences for which they are worth their time.
func (l *Loop) propose() {
	d := &l.drafts
	if !d.enabled || len(l.requests) == 0 {
		return
	}
	round := &d.chains.round
	*round = draft.Round{Passes: &d.times, Drafter: &d.chains.times,
		Gain: math.Float64frombits(d.gain.Load())}
	foreground := l.foregroundRuns()
	for _, r := range l.requests {
		if r.decodes() && !(r.Background && foreground) {
			round.Rows++
		}
	}
	l.chooseHead()
	d.chains.drafting = 0
	if m := d.chains.model; m != nil {
		m.begin(l.config.MaxPrefillStall)
		if !d.free {
			round.Assumed = m.Step
		}
	}
	for _, r := range l.requests {
		r.chainDepth, r.chainTry, r.awaited, r.why = 0, false, false, draft.Why{}
		r.predicted = false
		if r.seq.Ahead > 0 {
			r.why.Cause = draft.Forced
		}
		if !r.drafting || !r.decodes() || r.Background && foreground { // which has no drafts then
			continue
		}
		// The last token of an answer is never computed.
		most := min(r.answerTokens()-r.usage.CompletionTokens-1, l.config.Sched.DraftTokens)
		r.drafts = r.drafts[:0]
		if known := len(r.seq.Tokens) - 1; r.seq.Tokens[known] < 0 {
			r.awaited = l.wouldDraft(r, r.seq.Tokens[:known], most-1)
			continue
		}
		if !l.proposeForced(r, most) {
			l.proposeFor(r, most)
		}
		if len(r.drafts) > 0 {
			r.awaited, r.why = true, draft.Why{Cause: draft.Full}
		}
		r.seq.Tokens = append(r.seq.Tokens, r.drafts...)
		r.seq.Drafts = len(r.drafts)
	}
}

// proposeForced fills r.drafts as Config.Draft says, and reports whether it decides.
func (l *Loop) proposeForced(r *request, most int) bool {
	r.forced, r.given = false, false
	if l.drafts.forced == nil {
		return false
	}
	f := l.drafts.forced(r.seq.Tokens, false)
	if f == nil {
		return false
	}
	r.forced, most = true, max(most, 0)
	r.drafts = append(r.drafts, f.Tokens...)
	if f.Block > 0 && r.chaining && l.prepareForced(r, min(most, f.Block)) {
		most = l.drafts.chains.mostAfter(r.seq.Tokens, min(most, f.Block))
		l.drafts.chains.listed = l.drafts.chains.short != nil && !f.WholeHead
		r.given, r.chainDepth = len(f.Tokens) > 0, most
		for !r.given && len(r.drafts) < most {
			r.drafts = append(r.drafts, 0)
		}
	}
	r.drafts = r.drafts[:min(len(r.drafts), most)]
	return true
}

// prepareForced reports whether the drafter can draft so many tokens before this pass.
func (l *Loop) prepareForced(r *request, most int) bool {
	unread := 0
	if m := l.drafts.chains.model; m != nil {
		unread = m.unread(r, r.seq.Tokens)
	}
	if unread < 0 || most < 1 {
		return false
	}
	prepared := l.prepareChain(r, unread, most)
	r.awaited = r.awaited || r.piece > 0
	return prepared
}

// wouldDraft reports whether drafts would be worth their time if the last token of r were known.
// known are the tokens before it.
func (l *Loop) wouldDraft(r *request, known []int32, most int) bool {
	d := &l.drafts
	if d.forced != nil {
		if f := d.forced(known, true); f != nil {
			return len(f.Tokens) > 0 || most > 0 && f.Block > 0 && r.chaining
		}
	}
	if most < 1 {
		r.why.Cause = draft.Short
		return false
	}
	if r.lookup != nil {
		r.lookup.Extend(known, &r.hits, &d.others)
		if depth, _, _ := l.lookUpDepth(r, most); depth > 0 {
			return true
		}
	}
	if !r.chaining {
		return false
	}
	depth, unread, _ := d.chains.depth(r, known, most, 1)
	r.why = d.chains.why(r, known, most, 1, depth, unread)
	r.chainDue = depth == 0 && unread >= 0 && unread <= trialReading && d.chains.try(unread)
	return depth > 0 || r.chainDue
}

// proposeFor fills r.drafts, with at most most tokens, by the drafter that is expected to make the
// pass fastest.
func (l *Loop) proposeFor(r *request, most int) {
	round := &l.drafts.chains.round
	depth, right, speed := 0, 0.0, 0.0
	if r.lookup != nil {
		r.lookup.Extend(r.seq.Tokens, &r.hits, &l.drafts.others)
		depth, right, speed = l.lookUpDepth(r, most)
	}
	if l.proposeChain(r, most, speed) || depth == 0 {
		return
	}
	r.predicted = r.lookup.Predicted()
	r.drafts = append(r.drafts, r.lookup.Propose(r.seq.Tokens, depth)...)
	round.Add(len(r.drafts), right, 0)
}

// lookUpDepth returns what draft.Round.LookupDepth does, and sets why the depth is 0.
func (l *Loop) lookUpDepth(r *request, most int) (depth int, right, speed float64) {
	round, match := &l.drafts.chains.round, r.lookup.Match()
	depth, right, speed = round.LookupDepth(match, most, &r.hits)
	if r.why = (draft.Why{}); depth == 0 {
		r.why = round.WhyNoLookup(match, most, &r.hits)
		if r.why.Cause == draft.NoMatch && l.config.NoBlock {
			r.why.Cause = draft.NoBlock
		}
	}
	return depth, right, speed
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
	l.countDrafts(r, w.Drafts)
	for n := 0; ; n++ {
		if n > 0 {
			l.sched.Accept(w, n)
			l.countAccepted(r)
		}
		if err := l.emitToken(r, step, row+n, len(r.seq.Tokens), now); err != nil || r.ended {
			return err
		}
		if n == w.Drafts {
			r.compareTrial()
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

// byOther reports whether a draft model, a drafter of blocks or an assistant drafted for the step
// that has run.
func (r *request) byOther(l *Loop) bool {
	c := &l.drafts.chains
	return (c.model != nil || c.block != nil || l.runner.InPlace()) && r.chainDepth > 0
}

// countDrafts counts the drafts of r in the step that has run.
func (l *Loop) countDrafts(r *request, drafts int) {
	r.usage.DraftTokens += drafts
	l.counters.DraftTokens += int64(drafts)
	switch {
	case r.byOther(l):
		r.usage.DraftModelTokens += drafts
		l.counters.DraftModelTokens += int64(drafts)
	case r.chainDepth > 0:
		r.usage.BlockTokens += drafts
		l.counters.BlockTokens += int64(drafts)
	case r.predicted:
		r.usage.PredictionTokens += drafts
	}
}

// countAccepted records that the next draft of r was right.
func (l *Loop) countAccepted(r *request) {
	r.usage.AcceptedTokens++
	l.counters.AcceptedTokens++
	l.addSaved(r, l.drafts.cost.Plain)
	switch {
	case r.byOther(l):
		r.usage.DraftModelAccepted++
		l.counters.DraftModelAccepted++
		l.drafts.chains.model.accept(r)
	case r.chainDepth > 0:
		r.usage.BlockAccepted++
		l.counters.BlockAccepted++
	case r.predicted:
		r.usage.PredictionAccepted++
	}
}

// observeDrafts records the duration of a step that only decodes. On a GPU, a step that does not
// overlap with the host's work counts from its planning on. If it has no drafts and was only
// awaited to propose some, it does not count.
func (l *Loop) observeDrafts(s *step, now time.Time) {
	rows, drafts, awaited := 0, 0, false
	for _, w := range s.work {
		if w.To-w.From-w.Drafts != 1 {
			return
		}
		rows, drafts = rows+w.To-w.From, drafts+w.Drafts
		awaited = awaited || w.Seq.Owner.(*request).awaited
	}
	if l.waitedForHost(s) && drafts == 0 && awaited {
		return
	}
	l.drafts.times.Observe(rows, l.passTime(s, now).Seconds())
	l.drafts.chains.times.Tick()
	l.drafts.chains.listTimes.Tick()
}

// waitedForHost reports whether a GPU waited for the host before and after a step.
func (l *Loop) waitedForHost(s *step) bool { return l.runner.Async() && !s.async }

// passTime returns how long a step took, without the drafter's steps before it.
func (l *Loop) passTime(s *step, now time.Time) time.Duration {
	switch {
	case l.drafts.free:
		return time.Second
	case l.waitedForHost(s):
		return now.Sub(s.began) - s.drafting
	}
	return l.steps.lastTook
}

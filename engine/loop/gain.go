package loop

// What drafts gain, and why there are none, per request and in total. The sums that draft.Times
// estimates are booked when a step completes: first what its drafts cost, for each answer that
// decodes in it, then what each right draft saves. Nothing is allocated, and nobody is asked.

import (
	"math"
	"time"

	"headroom/engine/draft"
	"headroom/engine/sched"
)

// addSaved adds what drafts have saved for a request, in seconds of the loop's work. A throttled
// loop idles in proportion to its work, up to longestIdle, and so saves more.
func (l *Loop) addSaved(r *request, seconds float64) {
	idle := l.throttled.idleShare()
	pause := min(math.Abs(seconds)*idle/(1-idle), longestIdle.Seconds())
	saved := time.Duration((seconds + math.Copysign(pause, seconds)) * float64(time.Second))
	r.saved += saved
	l.counters.saved += saved
}

// chargeDrafts books what the drafts of a step have cost. A step without drafts has a cost, too, if
// the drafter worked before it, or if a GPU waited for the host in order that it may propose some.
func (l *Loop) chargeDrafts(s *step, now time.Time) {
	l.drafts.cost = draft.Cost{}
	if !l.drafts.enabled {
		return
	}
	rows, drafts, more := 0, 0, s.drafter
	waited, only := false, true
	for _, w := range s.work {
		if w.To-w.From-w.Drafts != 1 {
			only = false // it computes prompts
			continue
		}
		rows, drafts = rows+w.To-w.From, drafts+w.Drafts
		waited = waited || w.Seq.Owner.(*request).awaited
	}
	if drafts == 0 && waited && only && l.waitedForHost(s) {
		more += max(0, l.passTime(s, now).Seconds()-l.drafts.times.Seconds(rows))
	}
	if drafts == 0 && more == 0 {
		return
	}
	took := 0.0
	if only {
		took = l.passTime(s, now).Seconds()
	}
	l.drafts.cost = l.drafts.times.Cost(rows, drafts, more, took)
	for _, w := range s.work {
		if r := w.Seq.Owner.(*request); !r.ended && r.usage.CompletionTokens > 0 {
			l.addSaved(r, -l.drafts.cost.Drafts)
		}
	}
}

// countPass counts why a pass had no drafts for a request.
func (r *request) countPass(w sched.Work) {
	if r.usage.CompletionTokens > 0 && w.Drafts == 0 && r.why.Cause != draft.NoCause {
		r.whys.Add(r.why)
	}
}

// whyNoDrafts returns why a request had no drafts.
func (r *request) whyNoDrafts() draft.Why {
	switch {
	case r.NoAnswer || r.Embed || r.usage.CompletionTokens == 0 || r.usage.DraftTokens > 0:
		return draft.Why{}
	case r.barred != draft.NoCause:
		return draft.Why{Cause: r.barred}
	}
	why := r.whys.Most()
	if why.Cause == draft.Short && r.form != nil && r.usage.CompletionTokens > 2 {
		why.Cause = draft.Forced // the tokens of its passes, or there was no pass
	}
	return why
}

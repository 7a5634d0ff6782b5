package host

// Models that could not be loaded. A model that has run before is loaded again and again, with
// growing pauses, until it runs or somebody stops it: no fault needs a person to end it. A model
// that a person has just started is tried again only if the reason passes by itself, such as a lack
// of file descriptors: any other reason is the person's to see.
//
// During a short pause, requests wait. During a long one they are refused, with the reason and the
// time of the next attempt.

import (
	"context"
	"time"

	"headroom/engine/problem"
)

const (
	firstPause = 500 * time.Millisecond // default of Options.ReloadPause
	// soonCrashes crashes in a row are followed by short pauses.
	soonCrashes = 2
	// After further crashes, the pauses are a minute, with the default of Options.ReloadPause, and
	// double each time, up to 16 minutes.
	slowFactor   = 120
	mostDoubling = 4
	// Pauses after a passing lack begin with two first pauses and double up to slowFactor. The
	// first soonAttempts are short.
	soonAttempts = 2
)

// crashPause returns the pause after that many crashes in a row.
func crashPause(first time.Duration, inARow int) time.Duration {
	if inARow <= soonCrashes {
		return first << (inARow - 1)
	}
	return first * slowFactor << min(inARow-soonCrashes-1, mostDoubling)
}

// lackPause returns the pause after that many attempts that failed for a passing lack.
func lackPause(first time.Duration, attempts int) time.Duration {
	return min(2*first<<min(attempts-1, 16), slowFactor*first)
}

// loadFailed handles the failure of loading a wanted model. The caller holds mu.
func (h *Host) loadFailed(t *target, err error) {
	p := problem.From(err)
	t.of.failedAt = h.options.now()
	switch {
	case t.reload && p.Code == problem.Crashed:
		h.crashed(t, 0, err)
	case p.RetryAfter > 0: // a lack that passes
		t.attempts++
		h.retry(t, err, lackPause(h.options.ReloadPause, t.attempts))
	case t.reload:
		t.attempts++
		h.retry(t, err, crashPause(h.options.ReloadPause, soonCrashes+t.attempts))
	default:
		t.of.failure = err
	}
	if p.Code == problem.ModelNotFound {
		t.of.vanished = true
		h.background.processes.Go(h.models.rescan)
	}
}

// retry loads a model again after a pause. If the pause is long, the host has failed with err until
// then. The caller holds mu.
func (h *Host) retry(t *target, err error, pause time.Duration) {
	i := t.of
	next := &target{byPerson: t.byPerson, requestsWait: true,
		reload: t.reload || t.engine != nil, attempts: t.attempts}
	if t.engine != nil {
		next.attempts = 0
	}
	if pause <= h.options.ReloadPause<<max(soonCrashes-1, soonAttempts) {
		next.pause = pause
		h.setWanted(i, next)
		return
	}
	h.setWanted(i, next)
	i.failure, next.retryAt = err, time.Now().Add(pause)
	h.log.Warn("a model is not running; loading it is tried again", "model", i.model.ID, "at",
		next.retryAt.Format(time.TimeOnly), "err", err)
	timer := time.AfterFunc(pause, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if i.want == next && !h.closed {
			again := *next
			again.retryAt = time.Time{}
			h.setWanted(i, &again)
		}
	})
	context.AfterFunc(next.context, func() { timer.Stop() })
}

// refusal returns the Problem of requests for a model that could not be loaded.
func (t *target) refusal(failure error) error {
	p := problem.From(failure)
	if t.retryAt.IsZero() {
		code := problem.NotRunning
		if neverLoads(failure) {
			code = problem.ModelNotFound
		}
		return problem.New(code, "The model "+t.model.ID+" could not be loaded",
			failure.Error(), "")
	}
	refusal := problem.New(problem.NotRunning, "The model "+t.model.ID+" could not be loaded",
		failure.Error(), t.nextAttempt())
	if p.Code == problem.Crashed {
		refusal = problem.New(p.Code, p.Message, p.Why, t.nextAttempt())
	}
	refusal.RetryAfter = max(time.Until(t.retryAt), time.Second)
	return refusal
}

// nextAttempt says when loading is tried again.
func (t *target) nextAttempt() string {
	return "It is loaded again at " + t.retryAt.Format(time.TimeOnly) +
		". Starting it in Headroom does not wait."
}

package loop

// Requests in the background take what others leave (engine/sched/background.go). While others
// decode, that is a small share of the time. What a row costs the rows beside it differs between
// machines: on a GPU that reads the weights once for all rows it is little, on a CPU a row costs
// as much as any other. So the loop measures it. A step with background rows that takes longer than
// a usual step without makes a debt, and each step without pays a share of its own duration. A
// step may have background rows only while nothing is owed. So the others lose backgroundShare of
// their speed, whatever a row costs.
//
// A request that arrives while a step of the background alone runs would wait for the end of the
// step. On a CPU the step is stopped instead, after the layer that is being computed, and computed
// again later with the same result. After some stops in a row a step runs to its end, so that short
// requests that keep coming do not hold up the background for ever. A recurrent state cannot be
// computed again, so the steps of such a model have few prompt tokens.

import (
	"slices"
	"time"

	"headroom/engine/sched"
)

const (
	// backgroundStall is the time for the prompt tokens of a step of the background alone that
	// cannot be stopped, and minBackgroundTokens the least number of these: with fewer, most of the
	// time is for reading the weights.
	backgroundStall     = 20 * time.Millisecond
	minBackgroundTokens = 32
	// maxStops is the number of stopped steps in a row after which one runs to its end.
	maxStops = 8
)

// backgroundShare is the part of their time that other requests lose to the background.
const backgroundShare = 0.02

// background is the measured cost of background rows. Its zero value owes nothing, but allows
// nothing before a step without background rows was measured.
type background struct {
	alone float64      // seconds of a decoding step without background rows, on average; 0: unknown
	debt  float64      // seconds by which the others were delayed and have not been paid back
	stall prefillStall // of steps without other rows
}

// observe records how long a step took.
func (b *background) observe(work []sched.Work, took time.Duration) {
	foreground, shared, prompts := false, false, false
	for _, w := range work {
		if w.Seq.Background {
			shared = true
			continue
		}
		foreground = true
		prompts = prompts || w.To-w.From-w.Drafts > 1
	}
	seconds := took.Seconds()
	switch {
	case !foreground: // nobody is delayed
	case shared:
		b.debt += max(0, seconds-b.alone)
	case prompts: // says nothing about decoding
	default:
		const weight = 0.1 // of a step in the average
		if b.alone == 0 {
			b.alone = seconds
		}
		b.alone += weight * (seconds - b.alone)
		b.debt = max(0, b.debt-backgroundShare*seconds)
	}
}

// allowed reports whether the next step of others may have background rows.
func (b *background) allowed() bool { return b.alone > 0 && b.debt == 0 }

// foregroundRuns reports whether a request that is not in the background runs.
func (l *Loop) foregroundRuns() bool {
	return slices.ContainsFunc(l.requests,
		func(r *request) bool { return !r.Background && r.seq.Slot >= 0 })
}

// stoppable reports whether a step may be stopped for a request that arrives: it has rows of the
// background alone, and can be computed again as if it had never been.
func (l *Loop) stoppable(s *step) bool {
	return l.stopsInRow < maxStops && !l.runner.Async() && !l.config.Sched.Recurrent &&
		!slices.ContainsFunc(s.work, func(w sched.Work) bool {
			q := w.Seq
			return !q.Background || w.Drafts > 0 || len(w.Keeps) > 0 || q.Select.Prompt > 0 ||
				q.Owner.(*request).form != nil
		})
}

// stopped ends a step that was stopped. Its sequences are as they were before it.
func (l *Loop) stopped(s *step) {
	now := time.Now()
	l.steps.lastEnd, l.steps.lastTook = now, now.Sub(s.launched)
	l.stops++
	l.stopsInRow++
}

// sizeBackgroundChunks observes a step of the background alone, and sets the chunk size of the
// following ones if they cannot be stopped. On a GPU small chunks would cost much of the speed.
func (l *Loop) sizeBackgroundChunks(work []sched.Work, took time.Duration) {
	if l.runner.Async() || !l.config.Sched.Recurrent ||
		slices.ContainsFunc(work, func(w sched.Work) bool { return !w.Seq.Background }) {
		return
	}
	l.background.stall.observe(promptTokens(work), took)
	if n := l.background.stall.mixedTokens(backgroundStall); n > 0 {
		l.sched.SetBackgroundChunkTokens(max(n, minBackgroundTokens))
	}
}

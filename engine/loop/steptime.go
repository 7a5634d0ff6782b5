package loop

// The expected duration of a step, for a watchdog: it knows by it how long a step may last before
// something is wrong. The loop measures its steps. A step with few rows costs a fixed time, mostly
// for reading the weights. The time of a chunk grows with its rows and with the context in front of
// them. Both figures follow slower steps at once and faster ones slowly.

import (
	"sync/atomic"
	"time"

	"headroom/engine/sched"
)

const (
	fewRows     = 8    // a step with at most this many rows measures the fixed time
	contextUnit = 1024 // tokens of context that double the time of a row; few models need so few
	forgetting  = 0.05 // weight of a faster step
)

// stepTime measures steps. Only the loop's goroutine calls its methods; any may read expected.
type stepTime struct {
	fixed   float64      // seconds of a step with few rows; 0: not measured
	perUnit float64      // seconds per unit of a chunk; 0: not measured
	expects atomic.Int64 // the duration of the running step; 0: not known
}

// units returns the number of rows of a step, and their cost, which is 1 for a row at the start of
// a conversation.
func units(work []sched.Work) (rows int, cost float64) {
	for _, w := range work {
		n := w.To - w.From - w.Drafts
		rows += n
		cost += float64(n) * (1 + float64(w.From+n/2)/contextUnit)
	}
	return rows, cost
}

// launch sets the expected duration of a step that starts now.
func (s *stepTime) launch(work []sched.Work) {
	rows, cost := units(work)
	seconds := s.fixed
	if rows > fewRows {
		if seconds += cost * s.perUnit; s.perUnit == 0 {
			seconds = 0
		}
	}
	s.expects.Store(int64(seconds * float64(time.Second)))
}

// complete records how long a step took.
func (s *stepTime) complete(work []sched.Work, took time.Duration) {
	rows, cost := units(work)
	figure, seconds := &s.fixed, took.Seconds()
	if rows > fewRows {
		figure, seconds = &s.perUnit, seconds/cost
	}
	if seconds < *figure {
		seconds = *figure + forgetting*(seconds-*figure)
	}
	*figure = seconds
}

// expected returns the duration that was expected of the running step; 0: not known.
func (s *stepTime) expected() time.Duration { return time.Duration(s.expects.Load()) }

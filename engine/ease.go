package engine

// Working for a part of the time, so that a hot computer cools down and answers others: the loop
// rests behind each step. Steps are the same, and so are their bits; none is taken ahead of the
// last one's results meanwhile, or a device would have no rest.

import (
	"math"
	"time"
)

// longestRest is far below what a step that hangs is known by (Pulse).
const longestRest = 10 * time.Second

// SetWorkShare has the engine work for that share of the time from now on: 1 always, 0.5 as long as
// it rests.
func (e *Engine) SetWorkShare(share float64) {
	e.restShare.Store(math.Float64bits(1 - min(max(share, 0.05), 1)))
}

// rests is the share of the time that it rests.
func (e *Engine) rests() float64 { return math.Float64frombits(e.restShare.Load()) }

// ease rests behind a step that took so long, or until somebody wants something.
func (e *Engine) ease(took time.Duration) {
	if r := e.rests(); r > 0 {
		e.pause(min(time.Duration(float64(took)*r/(1-r)), longestRest))
	}
}

// sleep is e.pause outside of tests.
func (e *Engine) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.wake: // the loop looks next
	}
}

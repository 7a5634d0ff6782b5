package loop

import "time"

// Heartbeat shows a watchdog whether a loop makes progress. A loop whose Count does not advance
// while Busy is true, for much longer than StepTime, has hung. A fixed time limit for a pass could
// not detect that, because a pass takes a millisecond on one machine and a minute on another.
//
// Count advances with every iteration of the loop. On the CPU it also advances with every operator,
// the longest of which takes seconds. On a GPU, progress within a pass is not visible here, but the
// system ends GPU work that takes too long.
type Heartbeat struct {
	Count uint64
	Busy  bool // requests are running, or the inbox is not empty
	// StepTime is how long the last launched step should take, by the speed of earlier ones; 0: it
	// is not known.
	StepTime time.Duration
}

// Heartbeat returns the loop's current Heartbeat. It never waits for the loop.
func (l *Loop) Heartbeat() Heartbeat {
	running := l.published.running(true) + l.published.running(false)
	return Heartbeat{Count: l.heartbeat.Load(), Busy: running+l.inbox.pending() > 0,
		StepTime: l.stepTime.expected()}
}

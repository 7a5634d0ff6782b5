package loop

// Heartbeat is the progress of a loop, for a watchdog. A loop whose Count does not advance while
// Busy is true has hung. A time limit for a pass cannot detect that, because a pass takes a
// millisecond on one machine and a minute on another.
//
// Count advances with every pass of the loop and, on the CPU, with every operator, the longest of
// which takes seconds. Progress within a GPU's pass is not visible here; the system ends GPU work
// that takes too long.
type Heartbeat struct {
	Count uint64
	Busy  bool // requests are running, or the inbox is not empty
}

// Heartbeat returns the loop's progress. It never waits for the loop.
func (l *Loop) Heartbeat() Heartbeat {
	running := l.published.running()
	return Heartbeat{Count: l.heartbeat.Load(), Busy: running+l.inbox.pending() > 0}
}

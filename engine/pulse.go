package engine

// Whether the loop gets on, for whoever has to tell one that is slow from one that hangs: a clock
// cannot, since a pass takes a millisecond on one machine and a minute on another. The count goes
// up with every turn of the loop and, on the CPU, with every operator, of which the longest takes
// seconds at most. What a GPU does in a pass is not seen from here; its system ends what takes too
// long.

import "sync/atomic"

// Pulse is how the loop gets on. One whose Count stays while Due is true hangs, sooner or later.
type Pulse struct {
	Count uint64
	Due   bool // requests run, or something waits for the loop to look at it
}

// Pulse does not wait for the loop.
func (e *Engine) Pulse() Pulse {
	e.statsMu.Lock()
	running := e.stats.Running
	e.statsMu.Unlock()
	e.mu.Lock()
	mail := len(e.inbox) + len(e.cancelled) + len(e.mail)
	e.mu.Unlock()
	return Pulse{Count: e.beats.Load(), Due: running+mail > 0}
}

// beats is counted by the loop and by its device.
type beats = atomic.Uint64

package loop

// The loop can idle after each step, so that a hot computer cools down and stays responsive. The
// results do not change. A throttled loop launches a step only after the previous one has
// completed, because otherwise a GPU would have no idle time.

import (
	"math"
	"sync/atomic"
	"time"
)

// longestIdle is the maximum pause. It is far shorter than the time after which a watchdog
// considers the loop hung.
const longestIdle = 10 * time.Second

// throttle is the share of the time that the loop idles.
type throttle struct {
	idle  atomic.Uint64 // the share, as math.Float64bits
	pause func(time.Duration)
}

func (t *throttle) idleShare() float64 { return math.Float64frombits(t.idle.Load()) }

// SetDutyCycle limits the loop to a share of the time, from 0.05 to 1. At 0.5 it idles half of the
// time.
func (l *Loop) SetDutyCycle(share float64) {
	l.throttled.idle.Store(math.Float64bits(1 - min(max(share, 0.05), 1)))
}

// throttle idles after a step and the drafts before it, until the pause is over or an item arrives
// in the inbox.
func (l *Loop) throttle() {
	if idle := l.throttled.idleShare(); idle > 0 {
		took := l.steps.lastTook + l.drafts.chains.took
		l.throttled.pause(min(time.Duration(float64(took)*idle/(1-idle)), longestIdle))
	}
}

// sleep pauses the loop for d or until an item arrives in the inbox. Tests replace it.
func (l *Loop) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.inbox.wake: // run empties the inbox next
	}
}

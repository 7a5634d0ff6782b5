package loop

// The loop can idle after each step, so that a hot computer cools down and stays responsive. The
// results stay the same. While throttled, the loop launches no step before the previous one has
// completed. Otherwise a GPU would have no idle time.

import (
	"math"
	"sync/atomic"
	"time"
)

// longestIdle is far shorter than the time after which a watchdog considers the loop hung.
const longestIdle = 10 * time.Second

// throttle is the share of the time that the loop idles.
type throttle struct {
	idle  atomic.Uint64 // a float64's bits
	pause func(time.Duration)
}

func (t *throttle) idleShare() float64 { return math.Float64frombits(t.idle.Load()) }

// SetDutyCycle sets the share of the time in which the loop computes, from 0.05 to 1. With 0.5 it
// idles half of the time.
func (l *Loop) SetDutyCycle(share float64) {
	l.throttled.idle.Store(math.Float64bits(1 - min(max(share, 0.05), 1)))
}

// throttle idles after a step of the given duration, or until a message arrives in the inbox.
func (l *Loop) throttle(took time.Duration) {
	if idle := l.throttled.idleShare(); idle > 0 {
		l.throttled.pause(min(time.Duration(float64(took)*idle/(1-idle)), longestIdle))
	}
}

// sleep is the pause of a throttle outside of tests.
func (l *Loop) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.inbox.wake: // run empties the inbox next
	}
}

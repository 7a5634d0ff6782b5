package loop

// Working for a share of the time, so that a hot computer cools down and stays responsive: the loop
// idles after each step. Steps and their bits stay the same. None is launched before the previous
// one has completed, or a GPU would have no idle time.

import (
	"math"
	"sync/atomic"
	"time"
)

// longestIdle is far below the time after which a watchdog calls the loop hung.
const longestIdle = 10 * time.Second

// throttle is the share of the time that the loop idles.
type throttle struct {
	idle  atomic.Uint64 // a float64's bits
	pause func(time.Duration)
}

func (t *throttle) idleShare() float64 { return math.Float64frombits(t.idle.Load()) }

// SetDutyCycle sets the share of the time that the loop works: 1 always, 0.5 half of it. The least
// is 0.05.
func (l *Loop) SetDutyCycle(share float64) {
	l.throttled.idle.Store(math.Float64bits(1 - min(max(share, 0.05), 1)))
}

// throttle idles after a step of that length, or until something is in the inbox.
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
	case <-l.inbox.wake: // run takes the inbox next
	}
}

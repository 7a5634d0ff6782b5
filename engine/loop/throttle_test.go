package loop

import (
	"testing"
	"time"
)

// TestThrottleDrafts: the pause after a step also makes up for the time of the drafter, which may
// be longer than that of the step.
func TestThrottleDrafts(t *testing.T) {
	var paused time.Duration
	l := &Loop{}
	l.throttled.pause = func(d time.Duration) { paused = d }
	l.steps.lastTook, l.drafts.chains.took = 10*time.Millisecond, 30*time.Millisecond
	for share, want := range map[float64]time.Duration{0.5: 40 * time.Millisecond,
		0.8: 10 * time.Millisecond, 1: 0} {
		paused = 0
		l.SetDutyCycle(share)
		if l.throttle(); (paused - want).Abs() > time.Microsecond {
			t.Errorf("share %g: a pause of %s, expected %s", share, paused, want)
		}
	}
}

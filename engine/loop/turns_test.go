package loop

import (
	"testing"
	"time"
)

// TestTurns: 133 clients that are refused at once come back over the time in which as many requests
// end, and the times start again after a while.
func TestTurns(t *testing.T) {
	const interval = 250 * time.Millisecond
	var turns turns
	now := time.Now()
	var last time.Duration
	perSecond := map[time.Duration]int{}
	for range 133 {
		last = turns.next(now, interval)
		perSecond[last.Truncate(time.Second)]++
	}
	if want := 133 * interval; last != want {
		t.Errorf("the last client waits %v, expected %v", last, want)
	}
	for second, n := range perSecond {
		// Those who would wait for less than a second come together at its end.
		if n > 8 {
			t.Errorf("%d clients come back in the second after %v", n, second)
		}
	}
	if again := turns.next(now.Add(time.Hour), interval); again != minRetryAfter {
		t.Errorf("an hour later: %v, expected %v", again, minRetryAfter)
	}
	for range 10_000 {
		last = turns.next(now, time.Second)
	}
	if last > maxRetryAfter {
		t.Errorf("the longest wait is %v, expected at most %v", last, maxRetryAfter)
	}
}

package worker

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// checks returns the number of the first check at which something has lasted for d. The first check
// only asks.
func checks(d time.Duration) int { return 1 + int(d/watchInterval) }

// TestWatchdog: the result of each check, and the check that finds that the worker hangs.
func TestWatchdog(t *testing.T) {
	silent := func(int) *engine.Heartbeat { return nil }
	stuck := func(step time.Duration) func(int) *engine.Heartbeat {
		return func(int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: 7, Busy: true, StepTime: step}
		}
	}
	// progressEach makes progress once in that time.
	progressEach := func(each, step time.Duration) func(int) *engine.Heartbeat {
		return func(n int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: uint64(n / int(each/watchInterval)), Busy: true,
				StepTime: step}
		}
	}
	for name, c := range map[string]struct {
		waiting func(check int) bool              // nil: always
		answer  func(check int) *engine.Heartbeat // before that check
		stopped bool
		hangsAt int // the check; 0: never
	}{
		"silent":             {nil, silent, false, checks(silentPatience)},
		"stopped":            {nil, silent, true, checks(stoppedPatience)},
		"nobody waits":       {func(int) bool { return false }, silent, true, 0},
		"not measured":       {nil, stuck(0), false, 1 + checks(stuckUnknown)},
		"short steps":        {nil, stuck(time.Millisecond), false, 1 + checks(stuckLeast)},
		"steps of a second":  {nil, stuck(10 * time.Second), false, 1 + checks(200*time.Second)},
		"steps of a quarter": {nil, stuck(15 * time.Minute), false, 1 + checks(stuckMost)},
		"computing": {nil, func(n int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: uint64(n), Busy: true, StepTime: time.Millisecond}
		}, false, 0},
		"waiting for the disk": {nil, func(int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: 7}
		}, false, 0},
		"a first pass of two minutes": {nil, progressEach(2*time.Minute, 0), false, 0},
		"passes 19 times as long": {nil, progressEach(190*time.Second, 10*time.Second), false,
			0},
		"passes of a minute, never seen": {nil, progressEach(58*time.Second, 1), false, 0},
		"late answers": {nil, func(n int) *engine.Heartbeat {
			if n%20 != 0 {
				return nil
			}
			return &engine.Heartbeat{Count: uint64(n), Busy: true}
		}, false, 0},
		"short requests, one after another": {func(n int) bool { return n%5 != 0 }, silent, true,
			0},
		"stopped for a moment, again and again": {nil, func(n int) *engine.Heartbeat {
			if n%5 != 0 {
				return nil
			}
			return &engine.Heartbeat{Count: uint64(n), Busy: true}
		}, true, 0},
		"progress that stops later": {nil, func(n int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: uint64(min(n, 100)), Busy: true, StepTime: 1}
		}, false, 99 + checks(stuckLeast)},
	} {
		t.Run(name, func(t *testing.T) {
			var w watchdog
			asked := false
			for n := 1; n < 2000; n++ {
				waiting := c.waiting == nil || c.waiting(n)
				var answer *engine.Heartbeat
				if asked {
					answer = c.answer(n)
				}
				hangs := w.check(waiting, answer, func() bool { return c.stopped })
				if (hangs != "") != (n == c.hangsAt) {
					t.Fatalf("check %d: %q, want a reason at %d only", n, hangs, c.hangsAt)
				}
				if hangs != "" {
					return
				}
				asked = waiting
			}
			if c.hangsAt > 0 {
				t.Errorf("nothing was found, want a reason at %d", c.hangsAt)
			}
		})
	}
}

// TestHangs: a worker that makes progress is left alone. One that hangs is killed, and its request
// ends as crashed.
func TestHangs(t *testing.T) {
	defer checkLeaks(t)()
	o := small
	o.ContextTokens = 32768 // the request does not finish before the process is killed
	ticks := make(chan time.Time)
	m, err := Open(t.Context(), bundled(), o, Options{Log: quiet, ticks: ticks})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "Tell me a story."), IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	for check := range 40 {
		for range 2 { // at least one pass between two checks
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(check, err)
			}
		}
		ticks <- time.Time{}
	}
	if !alive(m.PID()) {
		t.Fatal("a worker that made progress was killed")
	}
	if err := syscall.Kill(m.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the system has stopped the process", func() bool { return isStopped(m.PID()) })
	for dead := false; !dead; {
		select {
		case ticks <- time.Time{}:
		case <-m.Died():
			dead = true
		case <-time.After(timeout):
			t.Fatal("a worker that hangs was not killed")
		}
	}
	events := read(t, s)
	done := events[len(events)-1]
	if p := problem.From(done.Err); done.Finish != engine.FinishError ||
		p.Code != problem.Crashed || !strings.Contains(p.Why, "somebody stopped it") {
		t.Errorf("the request ended with %s, %v", done.Finish, done.Err)
	}
	if err := m.Close(); err != nil || alive(m.PID()) {
		t.Errorf("Close: %v; the process is alive: %t", err, alive(m.PID()))
	}
}

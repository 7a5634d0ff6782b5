package worker

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// TestWatchdog: the result of each check, and the check that finds that the worker hangs.
func TestWatchdog(t *testing.T) {
	silent := func(int) *engine.Heartbeat { return nil }
	stuck := func(int) *engine.Heartbeat { return &engine.Heartbeat{Count: 7, Busy: true} }
	for name, c := range map[string]struct {
		waiting func(check int) bool              // nil: always
		answer  func(check int) *engine.Heartbeat // before that check
		hangsAt int                               // the check; 0: never
	}{
		"silent": {nil, silent, 1 + maxMissed}, // the first check only asks
		"stuck":  {nil, stuck, 2 + maxMissed},  // the first answer counts as progress
		"computing": {nil, func(n int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: uint64(n), Busy: true}
		}, 0},
		"waiting for the disk": {nil, func(int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: 7}
		}, 0},
		"no requests": {func(int) bool { return false }, silent, 0},
		"a pass that takes two minutes": {nil, func(n int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: uint64(n / 24), Busy: true}
		}, 0},
		"late answers": {nil, func(n int) *engine.Heartbeat {
			if n%20 != 0 {
				return nil
			}
			return &engine.Heartbeat{Count: uint64(n), Busy: true}
		}, 0},
		"short requests, one after another": {func(n int) bool { return n%30 != 0 }, silent, 0},
		"progress that stops later": {nil, func(n int) *engine.Heartbeat {
			return &engine.Heartbeat{Count: uint64(min(n, 100)), Busy: true}
		}, 100 + maxMissed},
	} {
		t.Run(name, func(t *testing.T) {
			var w watchdog
			asked := false
			for n := 1; n < 1000; n++ {
				waiting := c.waiting == nil || c.waiting(n)
				var answer *engine.Heartbeat
				if asked {
					answer = c.answer(n)
				}
				ask, hangs := w.check(waiting, answer)
				if ask != waiting {
					t.Fatalf("check %d: ask is %t, want %t", n, ask, waiting)
				}
				if hangs != (n == c.hangsAt) {
					t.Fatalf("check %d: hangs is %t, want true at %d only", n, hangs, c.hangsAt)
				}
				if hangs {
					return
				}
				asked = ask
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
	for check := range 3 * maxMissed {
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
		p.Code != problem.Crashed || !strings.Contains(p.Why, "made no progress for 3 minutes") {
		t.Errorf("the request ended with %s, %v", done.Finish, done.Err)
	}
	if err := m.Close(); err != nil || alive(m.PID()) {
		t.Errorf("Close: %v; the process is alive: %t", err, alive(m.PID()))
	}
}

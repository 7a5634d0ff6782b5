package worker

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// TestWatchdog: what each check answers, and after how many missed answers a worker hangs.
func TestWatchdog(t *testing.T) {
	silent := func(int) *engine.Heartbeat { return nil }
	stuck := func(int) *engine.Heartbeat { return &engine.Heartbeat{Count: 7, Busy: true} }
	for name, c := range map[string]struct {
		waiting func(beat int) bool
		answer  func(beat int) *engine.Heartbeat
		hangsAt int // the beat; 0: never
	}{
		"silent": {nil, silent, 1 + maxMissed}, // the first one asks
		// its first answer is as good as any
		"stuck": {nil, stuck, 2 + maxMissed},
		"at work": {nil,
			func(n int) *engine.Heartbeat {
				return &engine.Heartbeat{Count: uint64(n),
					Busy: true}
			}, 0},
		"waits for the disk": {nil,
			func(int) *engine.Heartbeat { return &engine.Heartbeat{Count: 7} }, 0},
		"nobody waits": {func(int) bool { return false }, silent, 0},
		"an operator that takes two minutes": {nil,
			func(n int) *engine.Heartbeat {
				return &engine.Heartbeat{Count: uint64(n / 24),
					Busy: true}
			},
			0},
		"late answers": {nil, func(n int) *engine.Heartbeat {
			return map[bool]*engine.Heartbeat{true: {Count: uint64(n), Busy: true}}[n%20 == 0]
		}, 0},
		"short requests, one after another": {func(n int) bool { return n%30 != 0 }, silent, 0},
		"it ends to get on later": {nil,
			func(n int) *engine.Heartbeat {
				return &engine.Heartbeat{Count: uint64(min(n, 100)),
					Busy: true}
			}, 100 + maxMissed},
	} {
		t.Run(name, func(t *testing.T) {
			var h watchdog
			asked := false
			for n := 1; n < 1000; n++ {
				waiting := c.waiting == nil || c.waiting(n)
				var answer *engine.Heartbeat
				if asked {
					answer = c.answer(n)
				}
				ask, hangs := h.check(waiting, answer)
				if ask != waiting {
					t.Fatalf("beat %d: it asks: %t, and somebody waits: %t", n, ask, waiting)
				}
				if hangs != (n == c.hangsAt) {
					t.Fatalf("beat %d: it hangs: %t, want that at %d", n, hangs, c.hangsAt)
				}
				if hangs {
					return
				}
				asked = ask
			}
		})
	}
}

// A worker that stands still is ended: its request has crashed, and a new process can be loaded.
// One that works is not.
func TestHangs(t *testing.T) {
	defer settled(t)()
	o := small
	o.ContextTokens = 32768 // no answer comes to its end before the process does
	ticks := make(chan time.Time)
	m, err := Open(t.Context(), bundled(), o, Options{Log: quiet, ticks: ticks})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "Tell me a story."), IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	for beat := range 3 * maxMissed {
		for range 2 { // a pass lies between two answers
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(beat, err)
			}
		}
		ticks <- time.Time{}
	}
	if !alive(m.PID()) {
		t.Fatal("a worker that works was ended")
	}
	if err := syscall.Kill(m.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for dead := false; !dead; {
		select {
		case ticks <- time.Time{}:
		case <-m.Died():
			dead = true
		case <-time.After(patience):
			t.Fatal("a worker that stands still lives on")
		}
	}
	events := read(t, s)
	done := events[len(events)-1]
	if p := problem.From(done.Err); done.Finish != engine.FinishError ||
		p.Code != problem.Crashed || !strings.Contains(p.Why, "made no progress for 3 minutes") {
		t.Errorf("the request ended with %s, %v", done.Finish, done.Err)
	}
	if err := m.Close(); err != nil || alive(m.PID()) {
		t.Errorf("closed with %v; it lives: %t", err, alive(m.PID()))
	}
}

package worker

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

var fault = ending{"it accessed memory that is not its own", true}

// suspectsAt returns Suspects with a clock that the test advances.
func suspectsAt(at *time.Time) *Suspects {
	s := NewSuspects()
	s.now = func() time.Time { return *at }
	return s
}

// crash lets the process end while prompts run, which began when now was since.
func (s *Suspects) crash(e ending, since time.Time, keys ...uint64) {
	running := map[uint64]time.Time{}
	for _, key := range keys {
		running[key] = since
	}
	s.crashed(running, e)
}

// TestSuspects: the only prompt that ran at two crashes is refused for a while; others are not.
func TestSuspects(t *testing.T) {
	now := time.Unix(1000, 0)
	refused := func(s *Suspects, key uint64) bool {
		p := s.admit(key)
		if p != nil && problem.From(p).Code != problem.CrashesModel {
			t.Errorf("prompt %d: %v", key, p)
		}
		return p != nil
	}
	expect := func(s *Suspects, what string, keys ...uint64) {
		t.Helper()
		for key := uint64(1); key <= 4; key++ {
			want := len(keys) > 0 && keys[0] == key
			if want {
				keys = keys[1:]
			}
			if got := refused(s, key); got != want {
				t.Errorf("%s: prompt %d is refused: %t, want %t", what, key, got, want)
			}
			s.ended(key, false)
		}
	}
	s := suspectsAt(&now)
	s.crash(fault, now, 1)
	expect(s, "after one crash")
	s.crash(fault, now, 1)
	expect(s, "after two", 1)
	now = now.Add(suspectTime)
	expect(s, "an hour later")

	s = suspectsAt(&now)
	s.crash(fault, now, 1, 2, 3)
	s.crash(fault, now, 3, 4)
	expect(s, "the only one of both crashes", 3)

	s = suspectsAt(&now)
	s.crash(fault, now, 1, 2)
	s.crash(fault, now, 1, 2)
	expect(s, "two of both crashes")

	s = suspectsAt(&now)
	s.crash(fault, now, 1)
	s.ended(1, true)
	s.crash(fault, now, 1)
	expect(s, "answered between two crashes")

	s = suspectsAt(&now)
	for range 3 {
		s.crash(ending{"it was killed by another program", false}, now, 1)
	}
	expect(s, "killed from outside")

	s = suspectsAt(&now)
	for key := range uint64(2 * maxSuspects) {
		s.crash(fault, now, key+10)
	}
	if len(s.known) > maxSuspects {
		t.Errorf("%d prompts are remembered", len(s.known))
	}
	var none *Suspects
	none.crashed(nil, fault)
	none.ended(none.key("m", nil), true)
	if none.admit(1) != nil {
		t.Error("without Suspects, a prompt is refused")
	}
}

// TestTrial: prompts that ran at a crash run one at a time, so that the second crash shows which of
// them is the cause. The others are answered.
func TestTrial(t *testing.T) {
	now := time.Unix(1000, 0)
	s := suspectsAt(&now)
	s.crash(fault, now.Add(-2*time.Second), 1, 2, 3)
	if s.admit(1) != nil || s.admit(9) != nil {
		t.Error("the first suspect or another prompt has to wait")
	}
	err := s.admit(2)
	if p := problem.From(err); err == nil || p.Code != problem.Busy || p.RetryAfter == 0 {
		t.Errorf("the second suspect meanwhile: %v", err)
	}
	now = now.Add(2*time.Second + trialExtra) // the first has run longer than before
	if s.admit(2) != nil || s.admit(3) == nil {
		t.Error("the second suspect does not have its turn")
	}
	s.crash(fault, now, 1, 2, 9)
	if err := s.admit(2); err == nil || problem.From(err).Code != problem.CrashesModel ||
		!strings.Contains(err.Error(), "not its own") {
		t.Errorf("the cause: %v", err)
	}
	for _, key := range []uint64{1, 3, 9} {
		if err := s.admit(key); err != nil {
			t.Errorf("prompt %d: %v", key, err)
		}
		s.ended(key, true)
	}
}

// TestPromptOfDeath: a prompt during which the process crashes twice is refused by the third
// process, and another prompt is answered.
func TestPromptOfDeath(t *testing.T) {
	suspects := NewSuspects()
	o := small
	o.ContextTokens = 32768
	var deadly, other []int32
	for n := range 3 {
		m, err := Open(t.Context(), bundled(), o, Options{Log: quiet, Suspects: suspects})
		if err != nil {
			t.Fatal(err)
		}
		deadly, other = prompt(t, m, "Crash."), prompt(t, m, "Hello.")
		s, err := m.Submit(engine.Request{Prompt: deadly, IgnoreEOS: true})
		if n < 2 {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = syscall.Kill(m.PID(), syscall.SIGSEGV)
			within(t, m.Died(), "the process has ended")
			if why := problem.From(m.Cause()).Why; why != fault.reason+
				", through a fault in Headroom or in a driver" {
				t.Errorf("the reason is %q", why)
			}
		} else if problem.From(err).Code != problem.CrashesModel {
			t.Errorf("the third time: %v", err)
		}
		if n == 2 {
			s, err := m.Submit(engine.Request{Prompt: other, MaxTokens: 2})
			if err != nil {
				t.Fatal(err)
			}
			if events := read(t, s); events[len(events)-1].Err != nil {
				t.Errorf("another prompt: %v", events[len(events)-1].Err)
			}
		}
		_ = m.Close()
	}
}

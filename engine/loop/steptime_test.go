package loop

import (
	"testing"
	"time"

	"headroom/engine/sched"
)

// TestStepTime: nothing is expected before the first steps, then what earlier steps took. A step is
// compared with earlier ones of another size and of another context.
func TestStepTime(t *testing.T) {
	var s stepTime
	chunk := func(from, rows int) []sched.Work {
		return []sched.Work{{From: from, To: from + rows}}
	}
	expect := func(what string, work []sched.Work, least, most time.Duration) {
		t.Helper()
		s.launch(work)
		if got := s.expected(); got < least || got > most {
			t.Errorf("%s: %v is expected, want %v to %v", what, got, least, most)
		}
	}
	expect("the first step", chunk(0, 512), 0, 0)
	s.complete(chunk(0, 512), 2*time.Second)
	expect("the same again", chunk(0, 512), 2*time.Second, 2*time.Second)
	expect("a quarter of it", chunk(0, 128), 300*time.Millisecond, time.Second)
	expect("a long context", chunk(100_000, 512), 20*time.Second, 10*time.Minute)
	expect("decoding, not measured", chunk(512, 1), 0, 0)
	s.complete(chunk(512, 1), 100*time.Millisecond)
	expect("decoding", chunk(9000, 1), 100*time.Millisecond, 100*time.Millisecond)
	s.complete(chunk(0, 512), 40*time.Second)
	expect("slower", chunk(0, 512), 40*time.Second, 41*time.Second)
	for range 200 {
		s.complete(chunk(0, 512), time.Second)
	}
	expect("fast again", chunk(0, 512), time.Second, 2*time.Second)
	if n := testing.AllocsPerRun(10, func() { s.launch(nil); s.complete(nil, 1) }); n > 0 {
		t.Errorf("%v allocations per step", n)
	}
}

package loop

import (
	"math"
	"testing"
	"time"
)

// TestSpeed: a speed counts from the begin of the step whose tokens are the oldest.
func TestSpeed(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var s speedometer
	add := func(from, to, prefill, decode int) {
		s.began = at(from).UnixNano()
		s.add(at(to), prefill, decode)
	}
	expect := func(ms int, prefill, decode float64) {
		t.Helper()
		p, d := s.perSecond(at(ms))
		if math.Abs(p-prefill) > 0.01*prefill || math.Abs(d-decode) > 0.01*decode {
			t.Errorf("at %d ms: %.1f and %.1f tokens/s, expected %.1f and %.1f", ms, p, d, prefill,
				decode)
		}
	}
	expect(0, 0, 0)
	add(0, 1001, 2048, 0) // just after the begin of a bucket
	expect(1002, 2044, 0)
	expect(2002, 1023, 0)
	for i := range 10 {
		add(1001+100*i, 1101+100*i, 0, 1)
	}
	expect(2001, 1023.5, 5)
	expect(3002, 0, 4.73) // 9 tokens since 1,125 ms; the step of the first began at 1,101
	expect(9000, 0, 0)
}

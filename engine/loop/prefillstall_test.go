package loop

import (
	"testing"
	"time"
)

func TestPrefillStall(t *testing.T) {
	var p prefillStall
	check := func(want int) {
		t.Helper()
		if got := p.mixedTokens(250 * time.Millisecond); got != want {
			t.Errorf("%d tokens at %g s each, expected %d", got, p.secondsPerToken, want)
		}
	}
	check(0)
	p.observe(1, time.Second) // decoding says nothing about prompts
	check(0)
	p.observe(100, time.Second) // 10 ms per token: 25 tokens fit, rounded down to 16
	check(16)
	p.observe(1000, 2*time.Second) // 2 ms now, 6 ms on average: 41 tokens fit, rounded down to 32
	check(32)
	p.observe(16, time.Hour) // too slow for any token: the minimum
	check(16)
	p = prefillStall{}
	p.observe(1<<20, time.Nanosecond)
	check(1 << 20)
}

package engine

import (
	"testing"
	"time"
)

func TestStall(t *testing.T) {
	var p stall
	check := func(want int) {
		t.Helper()
		if got := p.mixedTokens(250 * time.Millisecond); got != want {
			t.Errorf("%d tokens at %g s each, expected %d", got, p.secondsPerToken, want)
		}
	}
	check(0)
	p.add(1, time.Second) // decoding says nothing about prompts
	check(0)
	p.add(100, time.Second) // 10 ms a token: 25 fit, in steps of 16
	check(16)
	p.add(1000, 2*time.Second) // 2 ms now, 6 ms on average: 41 fit
	check(32)
	p.add(16, time.Hour) // hopelessly slow: never less than a step
	check(16)
	p = stall{}
	p.add(1<<20, time.Nanosecond)
	check(1 << 20)
}

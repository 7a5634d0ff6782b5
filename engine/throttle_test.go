package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine"
)

// TestDutyCycle checks that a throttled engine idles after each step, also on an asynchronous
// device, and gives the same answers.
func TestDutyCycle(t *testing.T) {
	for _, goes := range []bool{false, true} {
		e := openModel(t, tinySource(t, "qwen3_5_text"),
			engine.Options{ContextTokens: 256, ChunkTokens: 32, NoPrefixCache: true})
		var d *ahead
		if goes {
			d = goAhead(e)
		}
		var rests []time.Duration
		e.OnPause(func(d time.Duration) { rests = append(rests, d) })
		ask := func() []int32 {
			tokens := run(t, e, engine.Request{Prompt: someIDs(1, 70), MaxTokens: 9,
				IgnoreEOS: true, Sampling: samplings()[0]}, 0).tokens
			e.CachedPrefixes() // returns after the last pause
			return tokens
		}
		want := ask()
		if len(rests) != 0 {
			t.Errorf("ahead %t: it idles %d times without being throttled", goes, len(rests))
		}
		e.SetDutyCycle(0.5)
		if d != nil {
			d.events = nil
		}
		got := ask()
		if !slices.Equal(got, want) {
			t.Errorf("ahead %t: throttled it answers %v, otherwise %v", goes, got, want)
		}
		if steps := 3 + 8; len(rests) != steps || slices.Min(rests) <= 0 {
			t.Errorf("ahead %t: it idles %d times, want %d: %v", goes, len(rests), steps, rests)
		}
		if d != nil {
			pending := 0
			for _, event := range d.events {
				switch kind, _, _ := strings.Cut(event, " "); kind {
				case "commit":
					pending++
				case "wait":
					pending--
				}
				if pending > 1 {
					t.Errorf(
						"throttled, a step was launched before the previous one had completed: %v",
						d.events)
					break
				}
			}
		}
		before := len(rests)
		e.SetDutyCycle(1)
		if ask(); len(rests) != before {
			t.Errorf("ahead %t: it still idles", goes)
		}
	}
}

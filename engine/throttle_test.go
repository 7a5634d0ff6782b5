package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine"
)

// TestDutyCycle checks that a throttled engine idles after each step and gives the same answers. It
// also runs on an asynchronous device.
func TestDutyCycle(t *testing.T) {
	for _, async := range []bool{false, true} {
		e := openModel(t, tinySource(t, "qwen3_5_text"),
			engine.Options{ContextTokens: 256, ChunkTokens: 32, NoPrefixCache: true})
		var d *asyncDevice
		if async {
			d = makeAsync(e)
		}
		var pauses []time.Duration
		e.OnPause(func(d time.Duration) { pauses = append(pauses, d) })
		ask := func() []int32 {
			tokens := run(t, e, engine.Request{Prompt: someIDs(1, 70), MaxTokens: 9,
				IgnoreEOS: true, Sampling: samplings()[0]}, 0).tokens
			e.CachedPrefixes() // returns after the last pause
			return tokens
		}
		want := ask()
		if len(pauses) != 0 {
			t.Errorf("async %t: %d pauses without throttling, expected none", async, len(pauses))
		}
		e.SetDutyCycle(0.5)
		if d != nil {
			d.events = nil
		}
		got := ask()
		if !slices.Equal(got, want) {
			t.Errorf("async %t: tokens %v when throttled, otherwise %v", async, got, want)
		}
		if steps := 3 + 8; len(pauses) != steps || slices.Min(pauses) <= 0 {
			t.Errorf("async %t: %d pauses, expected %d: %v", async, len(pauses), steps, pauses)
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
		before := len(pauses)
		e.SetDutyCycle(1)
		if ask(); len(pauses) != before {
			t.Errorf("async %t: pauses after SetDutyCycle(1), expected none", async)
		}
	}
}

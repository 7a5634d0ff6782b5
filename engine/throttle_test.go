package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine"
)

// TestDutyCycle: an engine that rests does so behind each step, on a device that goes ahead too,
// and answers the same.
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
			e.CachedPrefixes() // the loop is behind its last rest
			return tokens
		}
		want := ask()
		if len(rests) != 0 {
			t.Errorf("ahead %t: it rests %d times unasked", goes, len(rests))
		}
		e.SetDutyCycle(0.5)
		if d != nil {
			d.events = nil
		}
		got := ask()
		if !slices.Equal(got, want) {
			t.Errorf("ahead %t: resting it answers %v, else %v", goes, got, want)
		}
		if steps := 3 + 8; len(rests) != steps || slices.Min(rests) <= 0 {
			t.Errorf("ahead %t: it rests %d times, want %d: %v", goes, len(rests), steps, rests)
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
					t.Errorf("resting, a step began before the last one had ended: %v", d.events)
					break
				}
			}
		}
		before := len(rests)
		e.SetDutyCycle(1)
		if ask(); len(rests) != before {
			t.Errorf("ahead %t: it goes on resting", goes)
		}
	}
}

package loop

import (
	"testing"
	"time"
)

// TestRetryAfter expects hand-computed times for prompts at 10 ms a token and answers of 50 tokens
// at 100 ms each.
func TestRetryAfter(t *testing.T) {
	p := pace{prefill: 10 * time.Millisecond, decode: 100 * time.Millisecond, answerTokens: 50}
	at := func(prompt, done, written, most int) RequestStats {
		return RequestStats{Usage: Usage{PromptTokens: prompt, PromptDoneTokens: done,
			CompletionTokens: written}, MaxTokens: most}
	}
	for _, test := range []struct {
		name     string
		p        pace
		requests []RequestStats
		streams  int
		want     time.Duration
	}{
		// 2 s of reading and 5 s of writing each, one after the other: one leaves every 7 s
		{"two in a row", p, []RequestStats{at(200, 0, 0, 0), at(200, 0, 0, 0)}, 1, 7 * time.Second},
		{"two at once", p, []RequestStats{at(200, 0, 0, 0), at(200, 0, 0, 0)}, 2,
			3500 * time.Millisecond},
		{"half read", p, []RequestStats{at(200, 100, 0, 0)}, 8, 6 * time.Second},
		{"half written", p, []RequestStats{at(200, 200, 25, 0)}, 8, 2500 * time.Millisecond},
		{"short answers", p, []RequestStats{at(200, 200, 0, 20)}, 8, 2 * time.Second},
		// 0.1 s at least, told as a second
		{"longer than usual", p, []RequestStats{at(200, 200, 500, 0)}, 8, time.Second},
		{"very long prompts", p, []RequestStats{at(200000, 0, 0, 0)}, 1, 10 * time.Minute},
		// 255 tokens
		{"no answer seen yet", pace{decode: 10 * time.Millisecond}, []RequestStats{at(5, 5, 1, 0)},
			1, 2550 * time.Millisecond},
		{"nothing measured", pace{}, []RequestStats{at(200, 0, 0, 0)}, 1, time.Second},
		{"nobody", p, nil, 1, time.Second},
	} {
		if got := test.p.retryAfter(test.requests, test.streams); got != test.want {
			t.Errorf("%s: %v, expected %v", test.name, got, test.want)
		}
	}
}

// TestPace averages 400 tokens read in 4 s, 60 steps in 6 s, and answers of 30 and 32 tokens.
// Cached tokens, and requests that never ran, do not count.
func TestPace(t *testing.T) {
	g := &requestLog{recent: []Finished{
		{Usage: Usage{PromptTokens: 400, PromptDoneTokens: 400, CachedTokens: 100,
			CompletionTokens: 30}, Timing: Timing{Prefill: 3 * time.Second, Decode: 2 * time.Second,
			DecodeSteps: 29}},
		{Usage: Usage{PromptTokens: 100, PromptDoneTokens: 100, CompletionTokens: 32},
			Timing: Timing{Prefill: time.Second, Decode: 4 * time.Second, DecodeSteps: 31}},
		{Usage: Usage{PromptTokens: 999}, Finish: FinishCancelled},
	}}
	if got, want := g.pace(),
		(pace{prefill: 10 * time.Millisecond, decode: 100 * time.Millisecond,
			answerTokens: 31}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

package loop

import (
	"testing"
	"time"
)

// TestRetryAfter expects hand-computed times. An answer has 50 tokens. A prompt token takes 10 ms,
// an answer token 100 ms.
func TestRetryAfter(t *testing.T) {
	p := pace{prefill: 10 * time.Millisecond, decode: 100 * time.Millisecond, answerTokens: 50}
	at := func(prompt, done, completion, maxTokens int) RequestStats {
		return RequestStats{Usage: Usage{PromptTokens: prompt, PromptDoneTokens: done,
			CompletionTokens: completion}, MaxTokens: maxTokens}
	}
	for _, test := range []struct {
		name     string
		p        pace
		requests []RequestStats
		streams  int
		want     time.Duration
	}{
		// Prefill takes 2 s and decode 5 s. Requests run one after the other: one ends every 7 s.
		{"one stream", p, []RequestStats{at(200, 0, 0, 0), at(200, 0, 0, 0)}, 1, 7 * time.Second},
		{"two streams", p, []RequestStats{at(200, 0, 0, 0), at(200, 0, 0, 0)}, 2,
			3500 * time.Millisecond},
		{"half of prompt done", p, []RequestStats{at(200, 100, 0, 0)}, 8, 6 * time.Second},
		{"half of answer done", p, []RequestStats{at(200, 200, 25, 0)}, 8, 2500 * time.Millisecond},
		{"max tokens below average", p, []RequestStats{at(200, 200, 0, 20)}, 8, 2 * time.Second},
		// The estimate is one token.
		{"answer longer than average", p, []RequestStats{at(200, 200, 500, 0)}, 8,
			100 * time.Millisecond},
		{"very long prompts", p, []RequestStats{at(200000, 0, 0, 0)}, 1, 10 * time.Minute},
		// 255 of defaultAnswerTokens remain.
		{"no answer has ended", pace{decode: 10 * time.Millisecond}, []RequestStats{at(5, 5, 1, 0)},
			1, 2550 * time.Millisecond},
		{"nothing measured", pace{}, []RequestStats{at(200, 0, 0, 0)}, 1, time.Second},
		{"no requests", p, nil, 1, time.Second},
	} {
		if got := test.p.retryAfter(test.requests, test.streams); got != test.want {
			t.Errorf("%s: %v, expected %v", test.name, got, test.want)
		}
	}
}

// TestPace averages 400 computed prompt tokens in 4 s, 60 decode steps in 6 s, and answers of 30
// and 32 tokens. Cached tokens, and requests that never ran, do not count.
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

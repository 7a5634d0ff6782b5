package engine

// When a client that was refused for a full queue should come again: as soon as a place is likely
// to be free, going by how fast the last requests went and by what those at work still have to do.

import (
	"fmt"
	"math"
	"time"

	"headroom/engine/problem"
)

// pace is how fast requests go, each for itself, with the others that ran beside it.
type pace struct {
	prefill, decode time.Duration // of a token
	answerTokens    int
}

// pace is measured over the recent requests; zero for what none of them has done.
func (b *books) pace() (p pace) {
	b.recentMu.Lock()
	defer b.recentMu.Unlock()
	var prefill, decode time.Duration
	var read, steps, answers, answered int
	for _, f := range b.recent {
		if f.Timing.Prefill > 0 {
			prefill += f.Timing.Prefill
			read += f.Usage.PromptDoneTokens - f.Usage.CachedTokens
		}
		decode += f.Timing.Decode
		steps += f.Timing.DecodeSteps
		if f.Usage.CompletionTokens > 0 {
			answers++
			answered += f.Usage.CompletionTokens
		}
	}
	if read > 0 {
		p.prefill = prefill / time.Duration(read)
	}
	if steps > 0 {
		p.decode = decode / time.Duration(steps)
	}
	if answers > 0 {
		p.answerTokens = answered / answers
	}
	return p
}

// The bounds of what a client is told, and the length of an answer before any has been seen.
const (
	soonest         = time.Second
	latest          = 10 * time.Minute
	supposedAnswers = 256
)

// wait is how long it takes until one of so many requests leaves, if streams of them run at once
// and they leave evenly. Each has a part of its prompt and of its answer before it.
func (p pace) wait(requests []RequestStats, streams int) time.Duration {
	if p.answerTokens == 0 {
		p.answerTokens = supposedAnswers
	}
	total := time.Duration(0)
	for _, r := range requests {
		answer := p.answerTokens
		if r.MaxTokens > 0 {
			answer = min(answer, r.MaxTokens)
		}
		total += p.prefill*time.Duration(r.Usage.PromptTokens-r.Usage.PromptDoneTokens) +
			p.decode*time.Duration(max(1, answer-r.Usage.CompletionTokens))
	}
	n := len(requests)
	return min(max(total/time.Duration(max(1, n*min(n, streams))), soonest), latest)
}

// busy refuses a request, with what waits, and when to come again. inbox is those that the loop has
// not seen.
func (e *Engine) busy(waiting int, inbox []*request) error {
	p, s := e.books.pace(), e.Stats()
	if p.prefill == 0 && s.PrefillTokensPerSecond > 0 {
		p.prefill = time.Duration(float64(time.Second) / s.PrefillTokensPerSecond)
	}
	if p.decode == 0 && s.DecodeTokensPerSecond > 0 {
		p.decode = time.Duration(float64(time.Second) *
			float64(max(1, s.Running)) / s.DecodeTokensPerSecond)
	}
	for _, q := range inbox { // not yet in Stats
		s.Requests = append(s.Requests,
			RequestStats{Usage: Usage{PromptTokens: len(q.Prompt)}, MaxTokens: q.MaxTokens})
	}
	after := p.wait(s.Requests, e.options.MaxSequences)
	refused := problem.New(problem.Busy, "Too many requests are waiting",
		fmt.Sprintf("%d wait, at most %d may", waiting, e.options.QueueRequests),
		fmt.Sprintf("Try again in about %d s.", int(math.Ceil(after.Seconds()))))
	refused.RetryAfter = after
	return refused
}

package loop

// If the queue is full, a request is refused. The client is told to try again when the next request
// is likely to end. The estimate uses the speed of recent requests, and the remaining tokens of the
// requests in flight. Several refused clients get times one after the other, because each end has
// room for one of them.

import (
	"fmt"
	"math"
	"sync"
	"time"

	"headroom/engine/problem"
)

// pace is the average speed of a request, including the delay by other requests at the same time.
type pace struct {
	prefill, decode time.Duration // per token
	answerTokens    int           // average length of an answer
}

// pace returns the average over the recent requests. A field is zero if no request reached its
// phase.
func (g *requestLog) pace() (p pace) {
	g.recentMu.Lock()
	defer g.recentMu.Unlock()
	var prefill, decode time.Duration
	var promptTokens, steps, answers, answerTokens int
	for _, f := range g.recent {
		if f.Timing.Prefill > 0 {
			prefill += f.Timing.Prefill
			promptTokens += f.Usage.PromptDoneTokens - f.Usage.CachedTokens
		}
		decode += f.Timing.Decode
		steps += f.Timing.DecodeSteps
		if f.Usage.CompletionTokens > 0 {
			answers++
			answerTokens += f.Usage.CompletionTokens
		}
	}
	if promptTokens > 0 {
		p.prefill = prefill / time.Duration(promptTokens)
	}
	if steps > 0 {
		p.decode = decode / time.Duration(steps)
	}
	if answers > 0 {
		p.answerTokens = answerTokens / answers
	}
	return p
}

const (
	minRetryAfter = time.Second
	maxRetryAfter = 10 * time.Minute
	// defaultAnswerTokens is the expected length of an answer before any request has ended.
	defaultAnswerTokens = 256
)

// turns gives refused clients the times at which a request is likely to end, each to one client.
// Its zero value is ready.
type turns struct {
	mu   sync.Mutex
	last time.Time // the last time that was given
}

// next returns how long the next refused client should wait, if a request ends in each interval.
func (t *turns) next(now time.Time, interval time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := now.Add(interval)
	if later := t.last.Add(interval); later.After(turn) {
		turn = later
	}
	if latest := now.Add(maxRetryAfter); turn.After(latest) {
		turn = latest
	}
	t.last = turn
	return max(turn.Sub(now), minRetryAfter)
}

// retryAfter estimates the time until the first of the requests ends. It assumes that up to streams
// requests run at once and that they end at equal intervals.
func (p pace) retryAfter(requests []RequestStats, streams int) time.Duration {
	if p.answerTokens == 0 {
		p.answerTokens = defaultAnswerTokens
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
	each := total / time.Duration(max(1, n*min(n, streams)))
	if each == 0 { // nothing is known
		return minRetryAfter
	}
	return min(each, maxRetryAfter)
}

// queueFull returns the Problem for a refused request. It tells how many requests are waiting and
// when to try again. submitted holds the requests that the loop has not taken from the inbox yet.
func (l *Loop) queueFull(waiting int, submitted []*request) error {
	p, s := l.log.pace(), l.Stats()
	if p.prefill == 0 && s.PrefillTokensPerSecond > 0 {
		p.prefill = time.Duration(float64(time.Second) / s.PrefillTokensPerSecond)
	}
	if p.decode == 0 && s.DecodeTokensPerSecond > 0 {
		p.decode = time.Duration(float64(time.Second) *
			float64(max(1, s.Running)) / s.DecodeTokensPerSecond)
	}
	for _, q := range submitted { // not in Stats yet
		s.Requests = append(s.Requests,
			RequestStats{Usage: Usage{PromptTokens: len(q.Prompt)}, MaxTokens: q.MaxTokens})
	}
	after := l.turns.next(time.Now(), p.retryAfter(s.Requests, l.config.Sched.Slots))
	refused := problem.New(problem.Busy, "Too many requests are waiting",
		fmt.Sprintf("%d are waiting, the limit is %d", waiting, l.config.QueueRequests),
		fmt.Sprintf("Try again in about %d s.", int(math.Ceil(after.Seconds()))))
	refused.RetryAfter = after
	return refused
}

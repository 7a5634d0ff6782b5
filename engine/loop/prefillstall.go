package loop

// A mixed pass computes prompt tokens and also decodes. While it runs, the decoding streams stall.
// The time per prompt token differs by three orders of magnitude between models and machines. So
// the loop measures it, and chooses the chunk size of the next mixed pass accordingly. The chunk
// size affects the timing of an answer, but never its bits.

import (
	"time"

	"headroom/engine/sched"
)

// minMixedTokens is the minimum chunk size of a mixed pass, even if the pass then takes longer than
// allowed. Otherwise a slow machine would never finish a prompt.
const minMixedTokens = 16

// prefillStall is the measured cost of a prompt token.
type prefillStall struct{ secondsPerToken float64 }

// observe records the duration of a pass over the given number of prompt tokens.
func (p *prefillStall) observe(tokens int, took time.Duration) {
	if tokens < minMixedTokens {
		return // most of the time is overhead and decoding
	}
	now := took.Seconds() / float64(tokens)
	// A slower pass replaces the previous cost at once. A faster pass only halves the difference,
	// because the cost of a token rises as the context grows.
	p.secondsPerToken = max(now, (now+p.secondsPerToken)/2)
}

// mixedTokens returns the number of prompt tokens that a pass can compute in maxStall. The number
// is rounded down to a multiple of minMixedTokens, and is at least minMixedTokens. Before the first
// measurement it is 0.
func (p *prefillStall) mixedTokens(maxStall time.Duration) int {
	if p.secondsPerToken <= 0 {
		return 0
	}
	n := min(maxStall.Seconds()/p.secondsPerToken, 1<<20)
	return max(int(n)/minMixedTokens, 1) * minMixedTokens
}

// sizeMixedChunks observes a step and sets the chunk size of the following mixed passes.
func (l *Loop) sizeMixedChunks(work []sched.Work, took time.Duration) {
	l.stall.observe(promptTokens(work), took)
	if n := l.stall.mixedTokens(l.config.MaxPrefillStall); n > 0 {
		l.sched.SetMixedChunkTokens(n)
	}
}

// promptTokens returns the number of prompt tokens of a step.
func promptTokens(work []sched.Work) (tokens int) {
	for _, w := range work {
		if n := w.To - w.From - w.Drafts; n > 1 {
			tokens += n
		}
	}
	return tokens
}

package loop

// How long running streams stall while a prompt is computed beside them. The length of a pass
// follows from its prompt tokens, at a cost per token that differs by three orders of magnitude
// between models and machines. So the cost is measured, and the chunk of the next mixed pass
// follows from it. Chunks change when an answer comes, never its bits.

import (
	"time"

	"headroom/engine/sched"
)

// minMixedTokens is computed in every mixed pass, however long it takes: otherwise a slow machine
// would never finish a prompt.
const minMixedTokens = 16

// prefillStall is the measured cost of a prompt token.
type prefillStall struct{ secondsPerToken float64 }

// observe adds a pass over that many prompt tokens.
func (p *prefillStall) observe(tokens int, took time.Duration) {
	if tokens < minMixedTokens {
		return // mostly overhead and decoding
	}
	now := took.Seconds() / float64(tokens)
	// A slower pass counts at once, a faster one by half: tokens cost more deeper in the context.
	p.secondsPerToken = max(now, (now+p.secondsPerToken)/2)
}

// mixedTokens returns how many prompt tokens fit into maxStall, a multiple of minMixedTokens; 0 if
// nothing was measured.
func (p *prefillStall) mixedTokens(maxStall time.Duration) int {
	if p.secondsPerToken <= 0 {
		return 0
	}
	n := min(maxStall.Seconds()/p.secondsPerToken, 1<<20)
	return max(int(n)/minMixedTokens, 1) * minMixedTokens
}

// sizeMixedChunks observes a step and sets the chunk of the next mixed ones.
func (l *Loop) sizeMixedChunks(work []sched.Work, took time.Duration) {
	tokens := 0
	for _, w := range work {
		if n := w.To - w.From; n > 1 {
			tokens += n
		}
	}
	l.stall.observe(tokens, took)
	if n := l.stall.mixedTokens(l.config.MaxPrefillStall); n > 0 {
		l.sched.SetMixedChunkTokens(n)
	}
}

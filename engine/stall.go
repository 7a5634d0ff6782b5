package engine

// How long running streams stand still while a prompt is read beside them. A pass is as long as its
// prompt tokens make it, and how long that is differs by three orders of magnitude between models
// and machines; so it is measured, and the tokens that a mixed pass may take follow from it. Chunks
// change no bit of any answer, only when it comes.

import (
	"time"

	"headroom/engine/sched"
)

const (
	defaultMaxStall = 250 * time.Millisecond
	// minMixedTokens is read in every mixed pass whatever it takes, or a slow machine would never
	// finish a prompt.
	minMixedTokens = 16
)

// stall is the time that a prompt token takes, of the last passes.
type stall struct{ secondsPerToken float64 }

// add takes note of a pass that read so many prompt tokens.
func (p *stall) add(tokens int, took time.Duration) {
	if tokens < minMixedTokens {
		return // mostly overhead, and decoding
	}
	now := took.Seconds() / float64(tokens)
	// slower counts at once, faster by and by: tokens get dearer with depth
	p.secondsPerToken = max(now, (now+p.secondsPerToken)/2)
}

// mixedTokens is how many prompt tokens fit into maxStall: a multiple of minMixedTokens; 0: not
// known yet.
func (p *stall) mixedTokens(maxStall time.Duration) int {
	if p.secondsPerToken <= 0 {
		return 0
	}
	n := min(maxStall.Seconds()/p.secondsPerToken, 1<<20)
	return max(int(n)/minMixedTokens, 1) * minMixedTokens
}

// paced takes note of a step and sets the size of the next mixed ones.
func (e *Engine) paced(work []sched.Work, took time.Duration) {
	tokens := 0
	for _, w := range work {
		if n := w.To - w.From; n > 1 {
			tokens += n
		}
	}
	e.stall.add(tokens, took)
	if n := e.stall.mixedTokens(e.options.MaxStall); n > 0 {
		e.sched.SetMixedChunkTokens(n)
	}
}

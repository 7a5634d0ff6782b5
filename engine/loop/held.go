package loop

import (
	"context"

	"headroom/engine/prefix"
)

// Held returns after how many tokens of a prompt, of which only the hashes are known, a sequence of
// the model without an adapter can resume from memory; see prefix.Space.Held. It waits for the step
// in progress. ok is false if ctx ends before.
func (l *Loop) Held(ctx context.Context, chain []prefix.Hash, blockTokens int) (tokens int,
	ok bool) {
	answer := make(chan int, 1)
	l.runOnLoop(func() {
		resumable := 0
		if ctx.Err() == nil { // else nobody waits any more
			_, resumable = l.sched.Held(chain, blockTokens)
		}
		answer <- resumable
	})
	select {
	case tokens = <-answer:
		return tokens, ctx.Err() == nil
	case <-ctx.Done():
	case <-l.inbox.ended:
	}
	return 0, false
}

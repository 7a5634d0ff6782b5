package loop

import (
	"context"

	"headroom/engine/prefix"
)

// HeldQuestion asks how much of a prompt is cached, of which only hashes are known.
type HeldQuestion struct {
	BlockTokens int           // 32, 64, 128 or 256
	Chain       []prefix.Hash // of the whole blocks
	Ends        []prefix.End  // of messages
}

// NewHeldQuestion returns the question for a prompt. positions are those where messages end.
func NewHeldQuestion(tokens []int32, blockTokens int, positions []int) HeldQuestion {
	chain := prefix.Chain(tokens, blockTokens)
	return HeldQuestion{blockTokens, chain, prefix.Ends(chain, tokens, blockTokens, positions)}
}

// Held is how much of a prompt is cached.
type Held struct {
	// A sequence can resume after MemoryTokens from memory, and after DiskTokens from disk. They
	// are ends of blocks or of messages. DiskTokens is 0 if memory has all of them.
	MemoryTokens, DiskTokens int
}

// Held returns how much of a prompt is cached for the model without an adapter; see
// prefix.Space.Held and blockstore.View.Held. It waits for the step in progress, and reads the
// index of the block store in the caller's goroutine. ok is false if ctx ends before memory was
// searched.
func (l *Loop) Held(ctx context.Context, q HeldQuestion) (h Held, ok bool) {
	answer := make(chan int, 1)
	l.runOnLoop(func() {
		resumable := 0
		if ctx.Err() == nil { // else nobody waits any more
			resumable = l.sched.Held(q.Chain, q.BlockTokens, q.Ends)
		}
		answer <- resumable
	})
	select {
	case h.MemoryTokens = <-answer:
		ok = ctx.Err() == nil
	case <-ctx.Done():
	case <-l.inbox.ended:
	}
	if ok && l.stored.view != nil && h.MemoryTokens < len(q.Chain)*q.BlockTokens {
		h.DiskTokens = l.stored.view.Held(ctx, q.Chain, q.BlockTokens, q.Ends,
			l.config.Sched.Recurrent)
	}
	return h, ok
}

package loop

import "headroom/engine/prefix"

// Forget drops a conversation from memory: its pages, its states, its pending writes to disk, and
// its tokens in the history. It drops every sequence that begins with tokens, and every one that is
// a prefix of tokens. Forget returns the bytes of the pages that it freed, and does nothing without
// tokens.
//
// Pages that other conversations share stay. So do pages that a running request uses, and they may
// be cached again when it ends. The conversation's files belong to the block store and should be
// removed afterwards (blockstore.Store.Remove), because Forget waits for writes in progress. It
// also waits for the step in progress.
func (l *Loop) Forget(tokens []int32) (freedBytes int64) {
	if len(tokens) == 0 {
		return 0
	}
	return l.forget(tokens)
}

// ForgetAll is Forget for every conversation.
func (l *Loop) ForgetAll() (freedBytes int64) { return l.forget(nil) }

func (l *Loop) forget(tokens []int32) (freedBytes int64) {
	freed := make(chan int64, 1)
	var try func()
	try = func() {
		if l.stored.stopSaving(tokens) {
			l.stored.afterSave = append(l.stored.afterSave, try)
			return
		}
		before := l.sched.FreePages()
		l.sched.Forget(tokens)
		l.log.forget(tokens)
		freed <- l.pageBytes(l.sched.FreePages().Minus(before))
	}
	l.runOnLoop(try)
	select {
	case n := <-freed:
		return n
	case <-l.inbox.ended:
		return 0
	}
}

// stopSaving stops the writing of a conversation, and reports whether a write in progress still
// holds memory that may belong to it. Writes of other conversations may hold states that they share
// with it.
func (b *storedBlocks) stopSaving(tokens []int32) (busy bool) {
	kept := b.unsaved[:0]
	for _, c := range b.unsaved {
		if !c.matches(tokens) {
			kept = append(kept, c)
		}
	}
	clear(b.unsaved[len(kept):])
	b.unsaved = kept
	for c := range b.saving {
		if c.matches(tokens) {
			c.forgotten.Store(true)
		}
		busy = busy || len(tokens) == 0 || prefix.Common(c.tokens, tokens) > 0
	}
	return busy
}

// matches reports whether tokens is a prefix of c.tokens, or c.tokens a prefix of tokens.
func (c *conversation) matches(tokens []int32) bool {
	return prefix.Common(c.tokens, tokens) == min(len(c.tokens), len(tokens))
}

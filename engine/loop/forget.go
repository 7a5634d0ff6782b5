package loop

import "headroom/engine/prefix"

// Forget drops a conversation from memory: its pages, its states, its pending writes to disk, and
// its tokens in the history. It drops every sequence that begins with tokens, and every sequence
// that is a prefix of tokens. If tokens is empty, Forget does nothing. It returns the bytes of the
// pages that it freed.
//
// Pages that other conversations or running requests use are not freed. When such a request ends,
// its pages may be cached again. Forget waits for the step and the writes in progress. These may
// still add files, so the caller should remove the conversation's files from the block store only
// after Forget (blockstore.Store.Remove).
func (l *Loop) Forget(tokens []int32) (freedBytes int64) {
	if len(tokens) == 0 {
		return 0
	}
	return l.forget(tokens)
}

// ForgetAll does what Forget does, for every conversation.
func (l *Loop) ForgetAll() (freedBytes int64) { return l.forget(nil) }

func (l *Loop) forget(tokens []int32) (freedBytes int64) {
	freed := make(chan int64, 1)
	var try func()
	try = func() {
		l.stored.preload.stop() // what it reads may be forgotten
		if l.stored.stopSaving(tokens) {
			l.stored.afterSave = append(l.stored.afterSave, try)
			return
		}
		before := l.sched.FreePages()
		l.sched.Forget(tokens)
		l.log.forget(tokens)
		l.drafts.chains.model.forget(tokens)
		l.drafts.others.Forget() // of all: they help for minutes
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

// stopSaving stops the writes of a conversation. It reports whether a write in progress still holds
// memory that may belong to the conversation. That write may be of another conversation, which
// shares pages or states with this one.
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

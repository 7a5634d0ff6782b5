package engine

// Forgetting a conversation: its pages and states in memory, what was to be written of it to disk,
// and the tokens that later prompts would be compared with. Its files are the block store's
// (Store.Remove), and are to be removed afterwards: what is being written of it when it is to be
// forgotten ends first. What a running request uses stays, and may be remembered again when that
// ends.

import "headroom/engine/prefix"

// Forget frees what memory has of the conversation that begins so, or that these tokens go on from,
// and returns how many bytes of pages that were. What other conversations begin with too stays. It
// waits for the pass that is under way. No tokens are no conversation.
func (e *Engine) Forget(tokens []int32) (freedBytes int64) {
	if len(tokens) == 0 {
		return 0
	}
	return e.forget(tokens)
}

// ForgetAll is Forget for every conversation.
func (e *Engine) ForgetAll() (freedBytes int64) { return e.forget(nil) }

func (e *Engine) forget(tokens []int32) (freedBytes int64) {
	freed := make(chan int64, 1)
	var try func()
	try = func() {
		if e.blocks.drop(tokens) {
			e.blocks.afterSave = append(e.blocks.afterSave, try)
			return
		}
		before := e.sched.FreePages()
		e.sched.Forget(tokens)
		e.books.forget(tokens)
		freed <- e.sched.FreePages().Minus(before).Bytes(e.pageSizes)
	}
	e.post(try)
	select {
	case n := <-freed:
		return n
	case <-e.ended:
		return 0
	}
}

// drop has nothing more written of the conversation, and reports whether memory that it may have is
// still held for the writer: what is written of others holds states that they share with it.
func (b *blocks) drop(tokens []int32) (busy bool) {
	kept := b.unsaved[:0]
	for _, c := range b.unsaved {
		if !c.is(tokens) {
			kept = append(kept, c)
		}
	}
	clear(b.unsaved[len(kept):])
	b.unsaved = kept
	for c := range b.saving {
		if c.is(tokens) {
			c.forgotten.Store(true)
		}
		busy = busy || len(tokens) == 0 || prefix.Common(c.tokens, tokens) > 0
	}
	return busy
}

// saved is called when c has been written and nothing is held for that any more.
func (b *blocks) saved(c *conversation) {
	if b.saving[c]--; b.saving[c] == 0 {
		delete(b.saving, c)
	}
	waiting := b.afterSave
	b.afterSave = nil
	for _, f := range waiting {
		f()
	}
}

// is reports whether c is the conversation of these tokens: one begins with the other.
func (c *conversation) is(tokens []int32) bool {
	return prefix.Common(c.tokens, tokens) == min(len(c.tokens), len(tokens))
}

// forget drops what prompts would be compared with. It is the loop's.
func (b *books) forget(tokens []int32) {
	b.learn() // or it would be learned afterwards
	b.history.Forget(b.model, tokens)
}

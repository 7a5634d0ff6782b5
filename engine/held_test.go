package engine_test

import (
	"context"
	"slices"
	"testing"

	"headroom/engine"
)

// TestHeld: what Held says of the next turn of a conversation by its hashes is what that turn then
// reuses, or hardly less: from memory, and from disk after a restart. A private conversation is
// nobody's.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	o := engine.Options{BlockStore: openStore(t, dir)}
	e := open(t, o)
	held := func(tokens []int32) engine.Held {
		t.Helper()
		var ends []int
		for i, token := range tokens {
			if e.Tokenizer().IsSpecial(token) {
				ends = append(ends, i, i+1)
			}
		}
		h, ok := e.Held(t.Context(), engine.NewHeldQuestion(tokens, 32, ends))
		if !ok {
			t.Fatal("no answer")
		}
		return h
	}
	first := engine.Request{MaxTokens: 20, IgnoreEOS: true,
		Prompt: encode(e, system("Answer briefly. ", 300))}
	if h := held(first.Prompt); h != (engine.Held{}) {
		t.Errorf("%+v of a new conversation", h)
	}
	answer := run(t, e, first, 0)
	next := engine.Request{MaxTokens: 2, Prompt: slices.Concat(first.Prompt, answer.tokens,
		encode(e, system("Go on. ", 60)))}
	h := held(next.Prompt)
	private := first
	private.Prompt, private.Private = encode(e, system("A secret. ", 300)), true
	run(t, e, private, 0)
	if h := held(private.Prompt); h != (engine.Held{}) {
		t.Errorf("%+v of a private conversation", h)
	}
	e.Close()
	o.BlockStore.Close()

	o.BlockStore = openStore(t, dir)
	e = open(t, o)
	cached := run(t, e, next, 0).done.Usage
	if h.MemoryTokens > cached.CachedTokens || h.MemoryTokens < cached.CachedTokens-32 {
		t.Errorf("%+v in memory, then %d were reused", h, cached.CachedTokens)
	}
	e.Close()
	o.BlockStore.Close()
	o.BlockStore = openStore(t, dir)
	e = open(t, o)
	h = held(next.Prompt)
	again := run(t, e, next, 0).done.Usage
	if h.DiskTokens == 0 || h.MemoryTokens > h.DiskTokens || h.DiskTokens > again.StoredTokens ||
		h.DiskTokens < again.StoredTokens-64 {
		t.Errorf("%+v on disk, then %d were read from there", h, again.StoredTokens)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, ok := e.Held(ended, engine.NewHeldQuestion(next.Prompt, 32, nil)); ok {
		t.Error("an answer after the end of the context")
	}
}

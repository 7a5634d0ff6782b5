package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"headroom/engine"
)

// talkTo returns the prompt of a conversation with its own beginning, of at least n words.
func talkTo(e *engine.Engine, name string, n int) []int32 {
	return encode(e, system(name+" answers briefly. ", n/3)+question)
}

// storeTalks stores conversations of these sizes, one after another. It returns the next request of
// each.
func storeTalks(t *testing.T, dir string, words ...int) []engine.Request {
	t.Helper()
	o := engine.Options{BlockStore: openStore(t, dir)}
	e := open(t, o)
	var next []engine.Request
	for i, n := range words {
		prompt := talkTo(e, fmt.Sprintf("Number %d", i), n)
		first := run(t, e, engine.Request{Prompt: prompt, MaxTokens: 20}, 0)
		next = append(next, engine.Request{MaxTokens: 12, IgnoreEOS: true,
			Prompt: slices.Concat(prompt, first.tokens, encode(e,
				"\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"))})
	}
	e.Close()
	o.BlockStore.Close()
	return next
}

// awaitPrefixes waits until n prefixes are in memory.
func awaitPrefixes(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		list := e.CachedPrefixes()
		if len(list) == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d prefixes are in memory, expected %d", len(list), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestPreload starts again with three stored conversations. All must be in memory before the first
// request, which has the bits of an engine without a cache and reads nothing from disk. The store
// counts it as a hit all the same.
func TestPreload(t *testing.T) {
	dir := t.TempDir()
	talks := storeTalks(t, dir, 300, 280, 400)
	store := openStore(t, dir)
	e := open(t, engine.Options{BlockStore: store, PreloadBytes: 1 << 30})
	awaitPrefixes(t, e, len(talks))
	if hits := store.Stats().Hits; hits != 0 {
		t.Errorf("%d hits before the first request, expected 0", hits)
	}
	alone := open(t, engine.Options{NoPrefixCache: true})
	for i, next := range talks {
		warm, cold := run(t, e, next, 0), run(t, alone, next, 0)
		if !slices.Equal(warm.logprobs, cold.logprobs) {
			t.Errorf("conversation %d: other log-probabilities than without a cache", i)
		}
		u := warm.done.Usage
		if missing := u.PromptTokens - u.CachedTokens; missing > 40 || u.StoredTokens != 0 {
			t.Errorf("conversation %d: %d tokens computed, expected at most 40; %d read "+
				"from disk, expected 0", i, missing, u.StoredTokens)
		}
		// The hit is counted on another goroutine.
		for deadline := time.Now().Add(20 * time.Second); store.Stats().Hits < int64(i+1); {
			if time.Now().After(deadline) {
				t.Fatalf("conversation %d: %d hits counted, expected at least %d", i,
					store.Stats().Hits, i+1)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestPreloadedTokensCount: a request that resumes inside a preloaded conversation reads only a
// state itself. The keys and values before it came from disk too, so they count as time saved.
func TestPreloadedTokensCount(t *testing.T) {
	dir := t.TempDir()
	talk := storeTalks(t, dir, 1200)[0]
	store := openStore(t, dir)
	e := open(t, engine.Options{BlockStore: store, PreloadBytes: 1 << 30})
	awaitPrefixes(t, e, 1)
	talk.Prompt = slices.Concat(talk.Prompt[:1100], encode(e, "\nStop here."))
	usage := run(t, e, talk, 0).done.Usage
	e.Close() // the hit is counted on another goroutine
	if usage.CachedTokens < 1024 {
		t.Fatalf("%d tokens were cached, expected at least 1,024", usage.CachedTokens)
	}
	if s := store.Stats(); s.Hits != 1 || s.SecondsSaved <= 0 {
		t.Errorf("%d hits saved %g s, expected 1 that saved more than 0", s.Hits, s.SecondsSaved)
	}
}

// TestPreloadStaysWithinItsBudget has room for one of two conversations: the last one used.
func TestPreloadStaysWithinItsBudget(t *testing.T) {
	dir := t.TempDir()
	talks := storeTalks(t, dir, 300, 300)
	perToken := open(t, engine.Options{}).Info().KVBytesPerToken
	e := open(t, engine.Options{BlockStore: openStore(t, dir),
		PreloadBytes: int64(len(talks[0].Prompt)+64) * perToken})
	awaitPrefixes(t, e, 1)
	for i, computedAtMost := range []int{len(talks[0].Prompt), 40} {
		u := run(t, e, talks[i], 0).done.Usage
		if fromMemory := u.CachedTokens - u.StoredTokens; i == 0 && fromMemory > 256 ||
			u.PromptTokens-u.CachedTokens > computedAtMost {
			t.Errorf("conversation %d: %+v", i, u)
		}
	}
}

// TestPreloadGivesWay sends requests at once, so that preloading ends. The answers have the same
// bits, and the engine closes although preloading may be at work.
func TestPreloadGivesWay(t *testing.T) {
	dir := t.TempDir()
	talks := storeTalks(t, dir, 280, 400, 300)
	alone := open(t, engine.Options{NoPrefixCache: true})
	for i, next := range talks {
		e := open(t, engine.Options{BlockStore: openStore(t, dir), PreloadBytes: 1 << 30})
		if !slices.Equal(run(t, e, next, 0).logprobs, run(t, alone, next, 0).logprobs) {
			t.Errorf("conversation %d: other log-probabilities than without a cache", i)
		}
		e.Forget(next.Prompt)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	e := open(t, engine.Options{BlockStore: openStore(t, dir), PreloadBytes: 1 << 30})
	if err := e.Close(); err != nil { // at once
		t.Error(err)
	}
}

package engine_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine"
)

// TestMetalCachedAnswers shows which answers are equal with and without a prefix cache on a GPU.
// There the tokens of a prompt and those that are generated go through different kernels for matrix
// products and attention, which add in different orders. So a cached prompt gives the bits of a
// cold start, in memory and on disk. A generated answer that a later prompt repeats keeps the bits
// with which it was generated, and a cold start computes it as a part of the prompt. The CPU has
// one order, and TestRestart shows that there all are equal.
func TestMetalCachedAnswers(t *testing.T) {
	onMetalDevices(t, testMetalCachedAnswers)
}

func testMetalCachedAnswers(t *testing.T, device string) {
	if compileOnly {
		t.Skip("compares results")
	}
	for _, name := range []string{"qwen3", "qwen3_5_moe_text"} {
		if name == "qwen3" && !long() && device == engine.DeviceSim {
			continue // the other one has its kernels too
		}
		t.Run(name, func(t *testing.T) {
			src, dir := tinySource(t, name), t.TempDir()
			o := engine.Options{ContextTokens: 1024, MaxSequences: 2, ChunkTokens: 64,
				KeptStates: 8}
			request := func(answer int, prompt ...[]int32) engine.Request {
				return engine.Request{Prompt: slices.Concat(prompt...), MaxTokens: answer,
					IgnoreEOS: true}
			}
			head := someIDs(9, 290)
			head[280] = 2 // an end token, where a state is kept
			answered := request(30, head)
			other := request(4, head, someIDs(11, 9)) // does not repeat the answer
			cold := o
			cold.NoPrefixCache = true
			uncached := openMetal(t, device, src, cold)
			first, fork := run(t, uncached, answered, 0), run(t, uncached, other, 0)
			next := request(4, head, first.tokens, someIDs(12, 9))
			recomputed := run(t, uncached, next, 0)
			uncached.Close()

			o.BlockStore = openStore(t, dir)
			e := openMetal(t, device, src, o)
			expect := func(what string, got, want finished) {
				t.Helper()
				if got.done.Err != nil || !slices.Equal(got.logprobs, want.logprobs) {
					t.Errorf("%s: %v (%v), expected %v", what, got.logprobs, got.done.Err,
						want.logprobs)
				}
			}
			expect("the first answer", run(t, e, answered, 0), first)
			memory := run(t, e, next, 0)
			if n := memory.done.Usage.CachedTokens; n < len(head)+len(first.tokens)-1 {
				t.Errorf("%d tokens were cached, expected the prompt and its answer", n)
			}
			again := run(t, e, answered, 0)
			expect("the same prompt from memory", again, first)
			forked := run(t, e, other, 0)
			expect("another question from memory", forked, fork)
			for _, f := range []finished{again, forked} {
				if n := f.done.Usage.CachedTokens; n < 256 {
					t.Errorf("%d tokens were cached, expected most of the prompt", n)
				}
			}
			e.Close()
			o.BlockStore.Close()

			o.BlockStore = openStore(t, dir)
			e = openMetal(t, device, src, o)
			stored := run(t, e, next, 0)
			if n := stored.done.Usage.StoredTokens; n < len(head)+len(first.tokens)-1 {
				t.Errorf("%d tokens were read from disk, expected the prompt and its answer", n)
			}
			expect("the next turn from disk, compared with memory", stored, memory)
			expect("another question from disk", run(t, e, other, 0), fork)

			path := filepath.Join(dir, "prompt")
			savePrompt(t, e, head, path)
			o.BlockStore, o.PromptCaches = nil, true
			e = openMetal(t, device, src, o)
			if err := loadPrompt(e, path); err != nil {
				t.Error(err)
			}
			filed := run(t, e, other, 0)
			if n := filed.done.Usage.CachedTokens; n != len(head) {
				t.Errorf("%d tokens came from a prompt cache, expected %d", n, len(head))
			}
			expect("another question from a prompt cache", filed, fork)

			if slices.Equal(memory.logprobs, recomputed.logprobs) {
				t.Error("an answer that is computed again has the bits with which it was " +
					"generated. README, FORMATS.md, DECISIONS.md and CHANGELOG.md say otherwise")
			}
			for i, l := range memory.logprobs {
				if d := math.Abs(float64(l - recomputed.logprobs[i])); !(d < 1e-3) {
					t.Errorf("token %d: %g, computed again %g", i, l, recomputed.logprobs[i])
				}
			}
			t.Logf("the next turn: %v, computed again %v", memory.logprobs, recomputed.logprobs)
		})
	}
}

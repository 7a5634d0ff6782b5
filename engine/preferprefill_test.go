package engine_test

import (
	"slices"
	"testing"

	"headroom/engine"
)

// TestPromptsBeforeDrafts: where prompts go first, a step that only reads a prompt leaves no drafts
// of others behind. On a device that samples they would make the next step fail, and elsewhere they
// would be verified a pass late.
func TestPromptsBeforeDrafts(t *testing.T) {
	const prompt = 40
	request := func(i int) engine.Request {
		r := engine.Request{Prompt: someIDs(i, prompt+60*i), MaxTokens: 60, IgnoreEOS: true}
		r.Sampling.Logprobs = -1 // with logprobs, the host samples
		return r
	}
	src := tinySource(t, "qwen3")
	o := engine.Options{ContextTokens: 512, MaxSequences: 4, ChunkTokens: 48, NoPrefixCache: true}
	var want [2][]int32
	plain := openModel(t, src, o)
	for i := range want {
		want[i], _, _ = collect(t, submit(t, plain, request(i)))
	}
	o.Speculate, o.PreferPrefill = engine.SpeculateAuto, true
	for _, async := range []bool{false, true} {
		e := openModel(t, src, o)
		if async {
			makeAsync(e)
		}
		e.FreeRows()
		var second *engine.Stream
		asked := make(chan struct{})
		e.AlwaysDraft(func(tokens []int32) []int32 {
			if len(tokens) < prompt || !slices.Equal(tokens[:prompt], request(0).Prompt) {
				return nil
			}
			n := len(tokens) - prompt
			if n >= 10 && second == nil { // comes while the first has drafts
				second, _ = e.Submit(request(1))
				close(asked)
			}
			return want[0][min(n, len(want[0])):min(n+3, len(want[0]))]
		})
		check := func(i int, s *engine.Stream) {
			got, _, done := collect(t, s)
			if done.Err != nil || !slices.Equal(got, want[i]) {
				t.Errorf("async %t, request %d: %v, tokens %v, expected %v", async, i, done.Err,
					got, want[i])
			}
		}
		check(0, submit(t, e, request(0)))
		<-asked
		check(1, second)
		if s := e.Stats(); s.DraftTokens == 0 || s.AcceptedTokens < s.DraftTokens*9/10 {
			t.Errorf("async %t: %d of %d drafts were right", async, s.AcceptedTokens, s.DraftTokens)
		}
	}
}

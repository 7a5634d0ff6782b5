package engine_test

import (
	"context"
	"slices"
	"testing"

	"headroom/engine"
)

// TestFollowers submits requests with a common prefix at the same time. The prefix must be computed
// only once, and each answer must have the same bits as alone.
func TestFollowers(t *testing.T) {
	head := system("Answer briefly. ", 200)
	alone := open(t, engine.Options{NoPrefixCache: true})
	var want []answered
	for _, q := range questions {
		history := head
		want = append(want, ask(t, alone, &history, q))
	}
	e := open(t, engine.Options{ChunkTokens: 64})
	var streams []*engine.Stream
	for _, q := range questions {
		prompt := head + "<|im_start|>user\n" + q +
			"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
		streams = append(streams,
			submit(t, e, engine.Request{Prompt: encode(e, prompt), MaxTokens: 40}))
	}
	computed, longest := 0, 0
	for i, s := range streams {
		var logprobs []float32
		for ev, err := s.Next(context.Background()); err == nil; ev,
			err = s.Next(context.Background()) {
			if ev.Type == engine.Token {
				logprobs = append(logprobs, ev.Logprob)
			} else if ev.Type == engine.Done {
				computed += ev.Usage.PromptTokens - ev.Usage.CachedTokens
				longest = max(longest, ev.Usage.PromptTokens)
			}
		}
		if !slices.Equal(logprobs, want[i].logprobs) {
			t.Errorf("request %d: the log-probabilities differ from those that it has alone", i)
		}
	}
	if limit := longest + 3*64; computed > limit {
		t.Errorf("%d prompt tokens were computed, expected at most %d; the longest prompt has %d",
			computed, limit, longest)
	}
	idle(t, e)
}

// TestLeaderCancelled checks that when a leader is cancelled, its follower starts without it.
func TestLeaderCancelled(t *testing.T) {
	e := open(t, engine.Options{ChunkTokens: 32})
	prompt := encode(e, system("Answer briefly. ", 400))
	leader := submit(t, e, engine.Request{Prompt: prompt, MaxTokens: 4, IgnoreEOS: true})
	follower := submit(t, e, engine.Request{Prompt: prompt, MaxTokens: 4, IgnoreEOS: true})
	if ev, err := leader.Next(context.Background()); err != nil || ev.Type != engine.Prefill {
		t.Fatalf("first event %v (%v), expected Prefill", ev, err)
	}
	leader.Cancel()
	if _, _, done := collect(t, leader); done.Finish != engine.FinishCancelled {
		t.Errorf("finish %q, expected cancelled", done.Finish)
	}
	tokens, _, done := collect(t, follower)
	if done.Finish != engine.FinishLength || len(tokens) != 4 {
		t.Errorf("the follower ended with %q after %d tokens, expected length after 4",
			done.Finish, len(tokens))
	}
	idle(t, e)
}

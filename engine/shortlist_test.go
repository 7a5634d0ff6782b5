package engine_test

// Drafts that the model's block chooses from a shortlist of a large vocabulary.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/engine"
	"headroom/engine/models/modelstest"
	"headroom/engine/sample"
)

// The shortlist of a model with such a block: the first and the last tokens.
const listedFirst, listedLast = 32768, 512

// TestLargeVocabulary: a random model of 80,000 tokens answers as without drafts, greedily and at
// random, alone and in a crowd. Drafts are on the list of the conversation, and have no tokens of
// other owners'. With the whole head they are any tokens.
func TestLargeVocabulary(t *testing.T) {
	const vocab = 80_000
	src := mtpSourceWith(t, "qwen3_5_text", map[string]any{"vocab_size": vocab})
	o := engine.Options{ContextTokens: 512, MaxSequences: 3, KeptStates: 40, QueueRequests: 8}
	plain := openModel(t, src, o)
	o.Speculate = engine.SpeculateAuto
	wholeHead := false
	o.Draft = func([]int32, bool) *engine.Drafts {
		return &engine.Drafts{Block: 3, WholeHead: wholeHead}
	}
	ahead := openModel(t, src, o)
	r := rand.New(rand.NewPCG(1, 2))
	var want plainAnswers
	for i := range 6 {
		var prompt []int32
		for range 10 + 20*i {
			prompt = append(prompt, r.Int32N(vocab))
		}
		s := sample.Params{Logprobs: 1}
		if i%2 == 1 {
			s = sample.Params{Logprobs: 1, Temperature: 1, Seed: new(uint64(i))}
		}
		want.add(t, plain, engine.Request{Prompt: prompt, MaxTokens: 24, IgnoreEOS: true,
			Sampling: s, Owner: fmt.Sprint(i)})
	}
	drafts, others := 0, 0 // others: on no list
	ahead.WatchBlocks(func(known, block []int32) {
		token := block[len(block)-1]
		drafts++
		if token >= listedFirst && token < vocab-listedLast && !slices.Contains(known, token) {
			others++
		}
	})
	want.alone(t, ahead, "from a list")
	want.crowd(t, ahead, "from a list")
	if s := ahead.Stats(); others > 0 || drafts < 200 || s.DraftTokens == 0 {
		t.Errorf("%d of %d drafts were on no list, expected none of some hundreds", others, drafts)
	}
	wholeHead, drafts = true, 0
	want.alone(t, ahead, "with the whole head")
	if others < drafts/4 || drafts < 100 {
		t.Errorf("with the whole head: %d of %d drafts were on no list, expected about half",
			others, drafts)
	}
}

// TestShortlistFollowsAnswer: with a list of two tokens, drafts are these and tokens of the
// conversation, also those that only the answer has. If requests of several owners draft in one
// step, none gets a token of another.
func TestShortlistFollowsAnswer(t *testing.T) {
	const vocab = 320 // of both models
	block := engine.Options{Speculate: engine.SpeculateAuto}
	assistant := block
	assistant.DraftModel = &engine.DraftModel{Required: true,
		Source: assistantSource(t, modelstest.SharedTarget)}
	for _, c := range []struct {
		name   string
		src    engine.Source
		o      engine.Options
		answer int // how many drafts are tokens of the answer alone, at least
	}{
		{"block", mtpSource(t, "qwen3_5_text"), block, 20},
		{"assistant", tinySource(t, "gemma4_text"), assistant, 0},
	} {
		c.o.MaxSequences, c.o.ContextTokens = 3, 512
		e := openModel(t, c.src, c.o)
		e.Shortlist(1, 1)
		e.DraftDepth(2)
		var prompts [][]int32
		for i := range int32(3) {
			prompts = append(prompts, []int32{7 + 90*i, 8 + 90*i, 9 + 90*i})
		}
		of := map[string]int{}
		e.WatchBlocks(func(known, drafts []int32) {
			token := drafts[len(drafts)-1]
			switch {
			case slices.Contains(known[:3], token):
				of["prompt"]++
			case slices.Contains(known, token):
				of["answer"]++
			case token != 0 && token != vocab-1:
				of["others"]++
			}
		})
		for crowd := 1; crowd <= len(prompts); crowd += 2 {
			clear(of)
			var streams []*engine.Stream
			for i, prompt := range prompts[:crowd] {
				streams = append(streams, submit(t, e, engine.Request{Prompt: prompt,
					MaxTokens: 80, IgnoreEOS: true, Owner: fmt.Sprint(i)}))
			}
			for _, s := range streams {
				collect(t, s)
			}
			idle(t, e)
			if of["others"] > 0 || crowd == 1 && (of["prompt"] == 0 ||
				of["answer"] < c.answer) {
				t.Errorf("%s, %d requests: drafts of %v", c.name, crowd, of)
			}
		}
	}
}

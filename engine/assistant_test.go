package engine_test

// The assistant of Gemma 4. That of the tests is random, so its drafts are wrong, and change
// nothing. models.TestAssistantEqualsMLXVLM compares them with the reference.

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/models/modelstest"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// assistantSource returns an assistant of the tiny model gemma4_text_affine, with other keys in its
// text_config.
func assistantSource(t *testing.T, text map[string]any) engine.Source {
	t.Helper()
	src := engine.Source{Dir: t.TempDir()}
	tree := os.DirFS(filepath.Join("models", "testdata", "assistant"))
	if err := (modelstest.Assistant{Text: text}).Write(tree, src.Dir); err != nil {
		t.Fatal(err)
	}
	return src
}

// TestAssistantDrafts: an engine drafts what the model and the assistant do that are run by hand,
// one token after another and in a crowd: after its own drafts, which are wrong, and after others,
// of which up to four in a row are right.
func TestAssistantDrafts(t *testing.T) {
	src, drafter := tinySource(t, "gemma4_text"), assistantSource(t, modelstest.SharedTarget)
	d := kernels.NewCPU(cpu.Options{Threads: 2})
	defer d.Close()
	weights := func(s engine.Source) *checkpoint.Weights {
		config, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		w, err := checkpoint.Open(s, config, d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	m, err := models.Load(weights(src))
	if err != nil {
		t.Fatal(err)
	}
	w := weights(drafter)
	if err := models.FindAttached(w.Config).Add(m, w); err != nil {
		t.Fatal(err)
	}
	byHand := runner.New(d, m, runner.Options{KV: cache.Default(), Pages: 8, Slots: 1,
		BatchRows: 256, LogitsRows: 256})
	pages := []int32{3, 1, 0, 2, 7, 6, 5, 4}
	var answers [][]int32 // prompts with their answers
	e := withDraftModel(t, src, drafter, engine.Options{ContextTokens: 512, MaxSequences: 4,
		Draft: func(known []int32, _ bool) *engine.Drafts {
			f := &engine.Drafts{Block: 4}
			for _, a := range answers {
				if n := len(known); n+5 < len(a) && slices.Equal(a[:n], known) {
					f.Tokens = slices.Clone(a[n : n+4])
					f.Tokens[n%4]++ // as many are right
				}
			}
			return f
		}})
	if got := e.Info().Drafter; got != engine.SpeculateMTP {
		t.Errorf("the drafter's way is %q", got)
	}
	compared := 0
	e.WatchBlocks(func(known, got []int32) {
		last := len(known) - 1
		if _, err := byHand.Step(known[:last], []kernels.Span{{Rows: last, Pages: pages}},
			[]int32{int32(last - 1)}); err != nil {
			t.Error(err)
			return
		}
		token, from := known[last], []int32(nil)
		for i := range got {
			logits, err := byHand.Draft([]int32{token},
				[]kernels.Span{{Rows: 1, Pos: last - 1, Pages: pages}}, from)
			if err != nil {
				t.Error(err)
				return
			}
			if token = mostLikely(logits); token != got[i] {
				t.Errorf("after %d tokens, draft %d: %d, by hand %d", len(known), i, got[i], token)
			}
			from = []int32{0}
			compared++
		}
	})
	for range 2 {
		var streams []*engine.Stream
		for i := range 4 {
			streams = append(streams, submit(t, e, engine.Request{Prompt: someIDs(i, 40+30*i),
				MaxTokens: 24, IgnoreEOS: true}))
		}
		var all [][]int32
		for i, s := range streams {
			got, _, _ := collect(t, s)
			all = append(all, slices.Concat(someIDs(i, 40+30*i), got))
		}
		answers = all
		if compared < 60 {
			t.Errorf("%d drafts were compared, expected more", compared)
		}
		compared = 0
	}
	if s := e.Stats(); s.AcceptedTokens < 20 || s.DraftModelAccepted != s.AcceptedTokens {
		t.Errorf("%d drafts were right, %d of them the assistant's, expected more",
			s.AcceptedTokens, s.DraftModelAccepted)
	}
}

// TestAssistantNotUsed: what an assistant cannot draft for is refused, with what is wrong.
func TestAssistantNotUsed(t *testing.T) {
	affine := tinySource(t, "gemma4_text_affine")
	for _, c := range []struct {
		model engine.Source
		draft engine.Source
		o     engine.Options
		says  string // "": nothing is wrong
	}{
		{affine, assistantSource(t, nil), engine.Options{Speculate: engine.SpeculateMTP}, ""},
		{affine, assistantSource(t, nil), engine.Options{KVBits: "4", KVStartTokens: 64}, ""},
		{tinySource(t, "qwen3"), assistantSource(t, nil), engine.Options{},
			"it drafts for models of type gemma4, this one is of type qwen3"},
		{affine, assistantSource(t, map[string]any{"vocab_size": 321}), engine.Options{},
			"it drafts for a model with vocab_size 321, this one has 320"},
		{affine, assistantSource(t, modelstest.SharedTarget), engine.Options{},
			"its sliding_window is 16"},
		{affine, assistantSource(t, map[string]any{"quantization": map[string]any{"bits": 17,
			"group_size": 64}}), engine.Options{}, "17"},
		{affine, assistantSource(t, nil), engine.Options{Speculate: engine.SpeculateDraft},
			"it is an assistant of Gemma 4, whose way to decode ahead is mtp"},
		{affine, assistantSource(t, nil), engine.Options{MaxKVTokens: 64},
			"it is an assistant of Gemma 4, and the KV cache is limited to 64 tokens"},
	} {
		c.o.ContextTokens = 512
		if c.o.Speculate == "" {
			c.o.Speculate = engine.SpeculateAuto
		}
		c.o.DraftModel = &engine.DraftModel{Source: c.draft, Required: true}
		if _, err := engine.Describe(c.model, c.o); c.says == "" && err != nil ||
			c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("got %v, expected %q", err, c.says)
		}
		if target, err := engine.NewDraftTarget(c.model); err != nil {
			t.Error(err)
		} else if err := target.Fits(c.draft); strings.Contains(c.says, "it drafts for") &&
			(err == nil || !strings.Contains(err.Error(), c.says)) || c.says == "" && err != nil {
			t.Errorf("does it fit: got %v, expected %q", err, c.says)
		}
		c.o.DraftModel.Required = false
		if _, err := engine.Describe(c.model, c.o); err != nil {
			t.Errorf("%q: an assistant that is not required keeps the model from running: %v",
				c.says, err)
		}
	}
}

// TestAssistantNeed: the figures of what a model needs include its assistant's weights and the
// hidden states that are kept for it.
func TestAssistantNeed(t *testing.T) {
	src := tinySource(t, "gemma4_text_affine")
	o := engine.Options{MaxSequences: 2, ContextTokens: 512, AvailableBytes: 1 << 40,
		Speculate: engine.SpeculateLookup}
	plain, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Speculate = engine.SpeculateAuto
	o.DraftModel = &engine.DraftModel{Source: assistantSource(t, nil), Required: true}
	with, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	const recent = cache.RecentTokens * 64 * 4 // of a slot
	if got := with.Need.StateBytes - plain.Need.StateBytes; got != 6*recent {
		t.Errorf("the states need %d bytes more, expected %d", got, 6*recent)
	}
	// Four of at most 256 kept states are promised, the others are growth.
	if got := with.Need.GrowthBytes - plain.Need.GrowthBytes; got != 252*recent {
		t.Errorf("the caches may grow by %d bytes more, expected %d", got, 252*recent)
	}
	if got := with.Need.WeightsBytes - plain.Need.WeightsBytes; got < 130_000 || got > 300_000 {
		t.Errorf("the weights need %d bytes more, expected 130,000 to 300,000", got)
	}
	if with.Need.KVBytes != plain.Need.KVBytes {
		t.Errorf("the KV cache needs %d bytes, expected %d", with.Need.KVBytes, plain.Need.KVBytes)
	}
}

package engine_test

// A draft model. A copy of the large model drafts what that chooses, so all of its drafts are
// right: a fault in what it has read, its keys and values or its states would show. The drafts of
// an unrelated model are wrong, and change nothing.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/safetensors"
	"headroom/engine/sample"
)

// withDraftModel opens a model with a draft model.
func withDraftModel(t *testing.T, src, small engine.Source, o engine.Options) *engine.Engine {
	t.Helper()
	o.Speculate = engine.SpeculateAuto
	o.DraftModel = &engine.DraftModel{Source: small, Name: "small", Required: true}
	return openModel(t, src, o)
}

// sameWithDraftModel drafts with each depth, alone and in a crowd of more requests than run at
// once, for two turns of each conversation. Tokens and log-probabilities are those of plain
// decoding. It returns how many drafts were right.
func sameWithDraftModel(t *testing.T, src, small engine.Source, o engine.Options,
	prompts [][]int32, depths []int, random bool) (right, drafts int64) {
	t.Helper()
	plain, ahead := openModel(t, src, o), withDraftModel(t, src, small, o)
	var want plainAnswers
	for i, p := range prompts {
		s := sample.Params{Logprobs: 1}
		if random && i%2 == 1 {
			s = sample.Params{Logprobs: 1, Temperature: 0.7, Seed: new(uint64(i)), TopK: 20,
				RepetitionPenalty: 1.05}
		}
		r := engine.Request{Prompt: p, MaxTokens: 30, Sampling: s, IgnoreEOS: true}
		for range 2 {
			tokens := want.add(t, plain, r)
			r.Prompt = slices.Concat(r.Prompt, tokens, prompts[(i+1)%len(prompts)][:10])
		}
	}
	for _, depth := range depths {
		ahead.DraftDepth(depth)
		name := fmt.Sprintf("depth %d", depth)
		want.alone(t, ahead, name)
		want.crowd(t, ahead, name)
	}
	s := ahead.Stats()
	if s.DraftModelTokens == 0 {
		t.Errorf("the draft model drafted nothing")
	}
	return s.DraftModelAccepted, s.DraftModelTokens
}

// draftPrompts has prompts for tiny models, one of which takes several pieces to read.
func draftPrompts() (prompts [][]int32) {
	for i, n := range []int{20, 50, 620, 33} {
		prompts = append(prompts, someIDs(i, n))
	}
	return prompts
}

// TestDraftModelOfItself has copies of models draft for them.
func TestDraftModelOfItself(t *testing.T) {
	names, depths := []string{"qwen3", "qwen3_5_text", "gemma2", "gemma3_text", "gpt_oss",
		"qwen3_next", "llama"}, []int{1, 2, 5, 8}
	if testing.Short() { // under the race detector
		names, depths = []string{"qwen3_5_text"}, []int{3}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			src := tinySource(t, name)
			right, drafts := sameWithDraftModel(t, src, src,
				engine.Options{MaxSequences: 4, ContextTokens: 1024}, draftPrompts(), depths, false)
			if right != drafts || drafts < 300 {
				t.Errorf("%d of %d drafts were right, expected all of some hundreds", right,
					drafts)
			}
		})
	}
}

// TestDraftModelStart: the first tokens of the large model stay float16, in pages of their own. The
// draft model has no such pages.
func TestDraftModelStart(t *testing.T) {
	src := tinySource(t, "qwen3")
	right, drafts := sameWithDraftModel(t, src, src, engine.Options{MaxSequences: 2,
		ContextTokens: 1024, KVBits: "4", KVStartTokens: 512}, draftPrompts(), []int{3}, false)
	if right == 0 {
		t.Errorf("none of %d drafts was right", drafts)
	}
}

// TestDraftModelOfAnother has random models of other shapes draft.
func TestDraftModelOfAnother(t *testing.T) {
	pairs := [][2]string{{"qwen3", "qwen3_5_text"}, {"qwen3_5_text", "llama"},
		{"gemma2", "qwen3"}, {"qwen3_next", "gemma2"}}
	if testing.Short() { // under the race detector
		pairs = pairs[:1]
	}
	for _, pair := range pairs {
		t.Run(pair[0]+" with "+pair[1], func(t *testing.T) {
			right, drafts := sameWithDraftModel(t, tinySource(t, pair[0]), tinySource(t, pair[1]),
				engine.Options{MaxSequences: 4, ContextTokens: 1024, KVBits: "(8, 4)"},
				draftPrompts(), []int{0, 1, 3, 8}, true)
			if right*2 > drafts {
				t.Errorf("%d of %d drafts were right, expected few", right, drafts)
			}
		})
	}
}

// TestDraftModelGoesBack has a copy draft for random answers, which part from its drafts. Those
// are right that are the likeliest tokens, so their number is known: a fault in how the draft model
// goes back would show.
func TestDraftModelGoesBack(t *testing.T) {
	names := []string{"qwen3", "qwen3_5_text", "gemma2", "qwen3_next"}
	if testing.Short() { // under the race detector
		names = names[1:2]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			src := tinySource(t, name)
			o := engine.Options{MaxSequences: 2, ContextTokens: 1024}
			plain, depth := openModel(t, src, o), 0
			o.Draft = func(tokens []int32, _ bool) *engine.Drafts {
				if rests(len(tokens)) {
					return &engine.Drafts{}
				}
				return &engine.Drafts{Block: depth}
			}
			ahead := withDraftModel(t, src, src, o)
			for _, depth = range []int{1, 3, 8} {
				for i, p := range draftPrompts() {
					s := sample.Params{Logprobs: 1, Temperature: 0.3, Seed: new(uint64(i))}
					// Drafts take only free pages, which cached prefixes are not.
					r := engine.Request{Prompt: p, MaxTokens: 300, IgnoreEOS: true, NoCache: true,
						Sampling: s}
					answer := hear(t, submit(t, plain, r), 0).tokens
					_, _, done := collect(t, submit(t, ahead, r))
					want, u := rightDrafts(answer, len(p), depth), done.Usage
					if u.DraftModelAccepted != want {
						t.Errorf("depth %d, request %d: %d of %d drafts were right, expected %d",
							depth, i, u.DraftModelAccepted, u.DraftModelTokens, want)
					}
				}
			}
		})
	}
}

// rests reports whether a pass after so many tokens has no drafts.
func rests(tokens int) bool { return tokens%12 > 4 }

// rightDrafts returns how many drafts of an answer are right if the likeliest tokens are drafted,
// depth of them in a pass. The first token comes from the prompt and needs no pass. The first
// pieces of the prompt are read before passes without drafts.
func rightDrafts(answer []engine.Event, prompt, depth int) (right int) {
	unread := prompt
	for at := 1; at < len(answer); at++ {
		if rests(prompt + at) {
			continue
		}
		if unread > 256 {
			unread -= 256
			continue
		}
		unread = 0
		for n := 0; n < depth && at+1 < len(answer) && // the last token is never computed
			answer[at].Token == answer[at].Top[0].Token; n++ {
			right++
			at++
		}
	}
	return right
}

// TestDraftModelPays has the engine decide. If a pass counts as a second, a draft model is worth
// its time.
func TestDraftModelPays(t *testing.T) {
	src := tinySource(t, "qwen3")
	o := engine.Options{MaxSequences: 2, ContextTokens: 1024}
	plain, ahead := openModel(t, src, o), withDraftModel(t, src, src, o)
	ahead.FreeRows()
	for _, how := range []string{engine.SpeculateLookup, engine.SpeculateDraft,
		engine.SpeculateMTP, engine.SpeculateOff} {
		r := engine.Request{Prompt: someIDs(7, 300), MaxTokens: 60, IgnoreEOS: true}
		want, _, _ := collect(t, submit(t, plain, r))
		r.Speculate = how
		got, _, done := collect(t, submit(t, ahead, r))
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %d, expected %d", how, got, want)
		}
		u := done.Usage
		if drafts := how == engine.SpeculateDraft; drafts != (u.DraftModelTokens > 20) {
			t.Errorf("%q: the draft model drafted %d tokens", how, u.DraftModelTokens)
		}
		if how == engine.SpeculateDraft && u.DraftTokens != u.DraftModelTokens {
			t.Errorf("%d drafts, %d of them the draft model's", u.DraftTokens, u.DraftModelTokens)
		}
	}
}

// TestDraftModelNeed: the figures of what a model needs include its draft model. It does not fit
// where there is only room for the model, which then runs without.
func TestDraftModelNeed(t *testing.T) {
	src, small := tinySource(t, "qwen3"), tinySource(t, "qwen3_5_text")
	o := engine.Options{MaxSequences: 4, ContextTokens: 512, Speculate: engine.SpeculateAuto}
	describe := func(o engine.Options) engine.Need {
		t.Helper()
		d, err := engine.Describe(src, o)
		if err != nil {
			t.Fatal(err)
		}
		return d.Need
	}
	alone := describe(o)
	o.DraftModel = &engine.DraftModel{Source: small}
	both := describe(o)
	e := openModel(t, src, o)
	// The draft model has no slots but those of its sequences, each twice, and two full contexts.
	d, err := engine.Describe(small, engine.Options{MaxSequences: 8, KeptStates: 1,
		ContextTokens: 512, NoPrefixCache: true, ChunkTokens: 252})
	if err != nil {
		t.Fatal(err)
	}
	caches := d.Need.StateBytes + d.Need.KVBytes
	if got := both.StateBytes - alone.StateBytes; got != caches {
		t.Errorf("the draft model's caches need %d bytes, expected %d", got, caches)
	}
	if got := both.WeightsBytes - alone.WeightsBytes; got != d.Need.WeightsBytes {
		t.Errorf("its weights need %d bytes, expected %d", got, d.Need.WeightsBytes)
	}
	if both.KVBytes != alone.KVBytes || both.ScratchBytes <= alone.ScratchBytes {
		t.Errorf("with a draft model %+v, without %+v", both, alone)
	}
	if got := e.Stats().StateBytes; got != both.StateBytes {
		t.Errorf("the engine has states of %d bytes, planned were %d", got, both.StateBytes)
	}
	o.AvailableBytes = both.TotalBytes() - 1
	if got := describe(o); got.TotalBytes() >= both.TotalBytes() {
		t.Errorf("%d bytes with %d available", got.TotalBytes(), o.AvailableBytes)
	}
	o.DraftModel.Required, o.AvailableBytes = true, alone.TotalBytes()
	if _, err := engine.Describe(src, o); err == nil ||
		!strings.Contains(err.Error(), "does not fit") {
		t.Errorf("got %v, expected that the model does not fit", err)
	}
}

// otherVocabulary returns a copy of a tiny model with another token 100.
func otherVocabulary(t *testing.T) engine.Source {
	t.Helper()
	src := tinySource(t, "qwen3")
	data, err := os.ReadFile(filepath.Join(src.Dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	vocab := file["model"].(map[string]any)["vocab"].(map[string]any)
	for token, id := range vocab {
		if id == 100.0 {
			delete(vocab, token)
			vocab["other"] = id
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(src.Dir)); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return engine.Source{Dir: dir}
}

// TestDraftModelOfVectors: a model that makes vectors is loaded without the draft model of all
// models, and the log says so.
func TestDraftModelOfVectors(t *testing.T) {
	var log bytes.Buffer
	logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	e := withDraftModel(t, engine.Source{Dir: vectorModels + "/modernbert"}, tinySource(t, "qwen3"),
		engine.Options{})
	if got := log.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "the large model generates no text") {
		t.Errorf("opening the model logged %s", got)
	}
	if d := e.Info().Description; d.Task == "" {
		t.Errorf("%+v is no model for vectors", d)
	}
}

// TestDraftModelRefused: a draft model that cannot be used is refused with a sentence if it is
// required. Otherwise the model runs without it, and opening it logs why, once.
func TestDraftModelRefused(t *testing.T) {
	src := tinySource(t, "qwen3")
	r := engine.Request{Prompt: someIDs(1, 20), MaxTokens: 8, IgnoreEOS: true}
	want, _, _ := collect(t, submit(t, openModel(t, src, engine.Options{}), r))
	_, err := engine.Describe(tinySource(t, "qwen3_5_text"), engine.Options{MaxKVTokens: 64,
		Speculate: engine.SpeculateAuto, DraftModel: &engine.DraftModel{Source: src,
			Required: true}})
	if err == nil || !strings.Contains(err.Error(), "cannot decode ahead") {
		t.Errorf("a recurrent model with a limited cache: got %v", err)
	}
	for _, c := range []struct {
		name  string
		small engine.Source
		o     engine.Options
		why   string
	}{
		{"another vocabulary", otherVocabulary(t), engine.Options{}, "token 100 is \"other\""},
		{"vectors", engine.Source{Dir: vectorModels + "/modernbert"}, engine.Options{},
			"generates no text"},
		{"no model", engine.Source{Dir: t.TempDir()}, engine.Options{}, "there is no model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.o
			o.Speculate = engine.SpeculateAuto
			o.DraftModel = &engine.DraftModel{Source: c.small, Name: "small", Required: true}
			_, err := engine.Open(t.Context(), src, o)
			if err == nil || !strings.Contains(err.Error(), "draft model cannot be used") ||
				!strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, expected %q", err, c.why)
			}
			var log bytes.Buffer
			logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			o.DraftModel.Required = false
			e := openModel(t, src, o)
			if got := log.String(); strings.Count(got, "\n") != 1 ||
				!strings.Contains(got, "draft_model=small") {
				t.Errorf("opening the model logged %s", got)
			}
			if got, _, _ := collect(t, submit(t, e, r)); !slices.Equal(got, want) {
				t.Errorf("got %d, expected %d", got, want)
			}
		})
	}
}

// TestDamagedDraftModel: a weight of the draft model that is not a number shows while it is loaded.
// The model runs without it, or, if it is required, the error names it. If the large model is the
// damaged one, the error is its own.
func TestDamagedDraftModel(t *testing.T) {
	damagedDir, good := copyDemo(t), copyDemo(t)
	edit(t, damagedDir, func(x *safetensors.Tensor) {
		if x.Name == "language_model.model.norm.weight" {
			x.Data = slices.Clone(x.Data)
			binary.LittleEndian.PutUint16(x.Data, 0x7fc0) // NaN in bfloat16
		}
	})
	for _, c := range []struct {
		large, small string
		required     bool
		says         string // "": it runs
	}{
		{good, damagedDir, false, ""},
		{good, damagedDir, true, "The draft model cannot be used: " + damagedDir +
			": The model's weights are damaged"},
		{damagedDir, good, false, "The model's weights are damaged"},
		{damagedDir, good, true, "The model's weights are damaged"},
	} {
		e, err := engine.Open(t.Context(), engine.Source{Dir: c.large}, engine.Options{
			ContextTokens: 64, MaxSequences: 1, Speculate: engine.SpeculateAuto,
			DraftModel: &engine.DraftModel{Source: engine.Source{Dir: c.small}, Name: "small",
				Required: c.required}})
		if err == nil {
			if got := e.Info().Drafter; got == engine.SpeculateDraft {
				t.Errorf("the damaged model drafts")
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if c.says == "" && err != nil || c.says != "" &&
			(err == nil || !strings.HasPrefix(err.Error(), c.says)) {
			t.Errorf("required %t: %v, expected %q", c.required, err, c.says)
		}
	}
}

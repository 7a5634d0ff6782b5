package engine_test

// Requests of every kind draft together where pages are few: some are preempted, some cancelled,
// some score their prompt or have a form. Each gets what it gets alone, without drafts, and the
// block store gets the same bytes.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/models"
	"headroom/engine/sample"
)

// heard is what a client gets.
type heard struct {
	tokens     []engine.Event // without usage
	scores     []engine.Score
	text       string
	finish     engine.FinishReason
	completion int
	cached     int
}

// hear reads a stream to its end. It cancels the request after so many tokens.
func hear(t *testing.T, s *engine.Stream, cancel int) (h heard) {
	t.Helper()
	for {
		e, err := s.Next(context.Background())
		if err != nil {
			return h
		}
		if e.Err != nil {
			t.Error(e.Err)
		}
		h.text += e.Text
		h.scores = append(h.scores, e.Scores...)
		switch h.completion = e.Usage.CompletionTokens; e.Type {
		case engine.Token:
			if h.completion != len(h.tokens)+1 {
				t.Errorf("token %d has the count %d", len(h.tokens)+1, h.completion)
			}
			e.Usage = engine.Usage{}
			if h.tokens = append(h.tokens, e); len(h.tokens) == cancel {
				s.Cancel()
			}
		case engine.Done:
			h.finish, h.cached = e.Finish, e.Usage.CachedTokens
		}
	}
}

// manyKinds returns requests of every kind.
func manyKinds(r *rand.Rand, context int, forms bool) (list []engine.Request) {
	for i := range 14 {
		n := 1 + r.IntN(context/2)
		q := engine.Request{Prompt: slices.Concat(someIDs(i%3, n*r.IntN(2)), someIDs(i+5, n)),
			MaxTokens: 1 + r.IntN(70), IgnoreEOS: r.IntN(4) > 0, Priority: r.IntN(5) / 4,
			NoCache: r.IntN(6) == 0, Private: r.IntN(5) == 0}
		q.Speculate = []string{"", "", "auto", "off", "lookup", "mtp", "draft"}[r.IntN(7)]
		q.Prompt = q.Prompt[:min(len(q.Prompt), context-1)]
		q.Sampling = sample.Params{Logprobs: r.IntN(5) - 1}
		if r.IntN(2) == 0 {
			q.Sampling.Temperature, q.Sampling.Seed = 0.9, new(uint64(i))
			q.Sampling.RepetitionPenalty, q.Sampling.TopP = 1.1, 0.9
			q.Sampling.FrequencyPenalty, q.Sampling.RepetitionContextTokens = 0.3, 1+r.IntN(30)
			if i%2 == 0 {
				q.Sampling.XTC, q.Sampling.DRY = sample.XTC{Probability: 0.3},
					sample.DRY{Multiplier: 0.8, ContextTokens: i}
			}
		}
		switch r.IntN(6) {
		case 0:
			q.ScorePrompt, q.NoAnswer = true, r.IntN(2) == 0
		case 1:
			q.Stop = []string{"e", "a"}[:1+r.IntN(2)]
		case 2:
			if forms {
				q.Output, q.IgnoreEOS, q.MaxTokens = formOf(person), false, 60
			}
		case 3:
			q.MaxTokens = 0 // up to the end of the context
			if r.IntN(3) > 0 {
				q.MaxTokens = 50
			}
		}
		list = append(list, q)
	}
	return list
}

func TestDraftLives(t *testing.T) {
	seeds := uint64(1)
	if long() {
		seeds = 16
	}
	for _, c := range []struct {
		name string
		src  engine.Source
		o    engine.Options
	}{
		{"demo", demoSource(t), engine.Options{StateFormat: "int8"}},
		{"demo's own drafts", demoSource(t), engine.Options{}},
		{"qwen3_5's own drafts", mtpSource(t, "qwen3_5_text"), engine.Options{KVStartTokens: 64}},
		{"latents' own drafts", ownBlock("deepseek_v3")(t), engine.Options{KVStartTokens: 64}},
		{"Mamba-2's own drafts", ownBlock("nemotron_h")(t), engine.Options{StateFormat: "int8"}},
		{"a draft model, own drafts", tinySource(t, "qwen3"),
			engine.Options{DraftModel: &engine.DraftModel{Source: tinySource(t, "qwen3")}}},
		{"a recurrent draft model, own drafts", tinySource(t, "qwen3_5_text"),
			engine.Options{DraftModel: &engine.DraftModel{Source: tinySource(t, "qwen3_next")}}},
		{"qwen3_5", tinySource(t, "qwen3_5_text"), engine.Options{}},
		{"qwen3_5 without prefixes", tinySource(t, "qwen3_5_text"),
			engine.Options{StateFormat: "bf16", NoPrefixCache: true}},
		{"qwen3_5 with a limit", tinySource(t, "qwen3_5_text"), engine.Options{MaxKVTokens: 48}},
		{"qwen3_5 with starts", tinySource(t, "qwen3_5_text"), engine.Options{KVStartTokens: 64}},
		{"qwen3", tinySource(t, "qwen3"), engine.Options{KVBits: "(8, 4)"}},
		{"qwen3 with starts", tinySource(t, "qwen3"), engine.Options{KVStartTokens: 128}},
		{"qwen3 with a limit", tinySource(t, "qwen3"),
			engine.Options{MaxKVTokens: 48, KVFormat: "q4_0"}},
		{"gemma2", tinySource(t, "gemma2"), engine.Options{}},
		{"lfm2", tinySource(t, "lfm2"), engine.Options{KVBits: "(8, 4)", StateFormat: "bf16"}},
		{"lfm2_moe", tinySource(t, "lfm2_moe"), engine.Options{}},
		{"granitemoehybrid", tinySource(t, "granitemoehybrid"),
			engine.Options{KVBits: "(8, 4)", StateFormat: "int8"}},
		{"granitemoehybrid with experts", tinySource(t, "granitemoehybrid_moe"), engine.Options{}},
		{"glm4_moe_lite", tinySource(t, "glm4_moe_lite"), engine.Options{}},
		{"deepseek_v3 with starts", tinySource(t, "deepseek_v3"),
			engine.Options{KVStartTokens: 64}},
	} {
		if testing.Short() && c.name != "qwen3_5" { // under the race detector
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					draftLife(t, seed, c.src, c.o, strings.HasPrefix(c.name, "demo"),
						strings.HasSuffix(c.name, "own drafts"))
				})
			}
		})
	}
}

// draftLife uses the engine's own drafts, or else those of a drafter that is often right.
func draftLife(t *testing.T, seed uint64, src engine.Source, o engine.Options, forms, own bool) {
	r := rand.New(rand.NewPCG(seed, 5))
	o.ContextTokens = 160 // there are pages for two such requests
	alone := o
	alone.NoPrefixCache = true
	plain := openModel(t, src, alone)
	o.MaxSequences, o.KeptStates, o.ChunkTokens = 2+r.IntN(3), 3+r.IntN(3), 6+r.IntN(60)
	o.PreferPrefill, o.PromptCacheSize = r.IntN(3) == 0, r.IntN(4)
	o.Speculate = engine.SpeculateAuto
	many := openModel(t, src, o)
	if seed%2 == 1 { // the device samples, as a GPU does
		makeAsync(many)
	}
	ask := &drafter{r: r, depth: draft.MaxTokens, wrong: 0.2, vocab: 200}
	requests := manyKinds(rand.New(rand.NewPCG(seed, 6)), o.ContextTokens, forms)
	if forms {
		requests = requests[:6]
	}
	var want []heard
	for _, q := range requests {
		h := hear(t, submit(t, plain, q), 0)
		want = append(want, h)
		a := slices.Clone(q.Prompt)
		for _, e := range h.tokens {
			a = append(a, e.Token)
		}
		ask.answers = append(ask.answers, a)
	}
	if many.FreeRows(); !own {
		many.AlwaysDraft(ask.propose)
	}
	for range 2 {
		var streams []*engine.Stream
		for _, q := range requests {
			streams = append(streams, submit(t, many, q))
		}
		for i, s := range streams {
			cancel := 0
			if (i+int(seed))%5 == 0 {
				cancel = 1 + i
			}
			got := hear(t, s, cancel)
			if got.finish == engine.FinishCancelled {
				n := len(got.tokens)
				if n > len(want[i].tokens) ||
					!reflect.DeepEqual(got.tokens, want[i].tokens[:n:n]) {
					t.Errorf("request %d, cancelled: got %v", i, got.tokens)
				}
				continue
			}
			if got.cached = 0; !reflect.DeepEqual(got, want[i]) {
				t.Errorf("request %d: got %+v, expected %+v", i, got, want[i])
			}
		}
		idle(t, many)
		if err := many.CheckMemory(); err != nil {
			t.Fatal(err)
		}
	}
	// Next turns resume where drafts were wrong.
	cached := 0
	for i, a := range ask.answers {
		q := requests[i]
		if len(a)+20 > o.ContextTokens || q.Output != nil {
			continue
		}
		first := q
		first.NoCache, first.ScorePrompt = false, false
		hear(t, submit(t, many, first), 0)
		q.Prompt, q.ScorePrompt, q.MaxTokens = append(slices.Clone(a), 3, 4, 5), false, 12
		want := hear(t, submit(t, plain, q), 0)
		got := hear(t, submit(t, many, q), 0)
		cached, want.cached = cached+got.cached, got.cached
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after request %d: got %+v, expected %+v", i, got, want)
		}
	}
	if idle(t, many); many.CheckMemory() != nil || cached == 0 && !o.NoPrefixCache {
		t.Errorf("%d tokens cached, %v", cached, many.CheckMemory())
	}
	s := many.Stats()
	if s.DraftTokens == 0 && o.MaxKVTokens == 0 { // a recurrent model with rings has none
		t.Error("there were no drafts")
	}
	t.Logf("%d preemptions, %d of %d drafts were right, %d tokens cached", s.Preemptions,
		s.AcceptedTokens, s.DraftTokens, s.CachedTokens)
}

// TestDraftsOnDisk: conversations that were decoded ahead leave the same files in the block store,
// apart from the measured times in their headers.
func TestDraftsOnDisk(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_5_text", "gemma2", "lfm2",
		"granitemoehybrid", "deepseek_v3"} {
		t.Run(name, func(t *testing.T) {
			d := &drafter{r: rand.New(rand.NewPCG(1, 2)), depth: draft.MaxTokens, wrong: 0.3,
				vocab: 200}
			always := func(e *engine.Engine) { e.AlwaysDraft(d.propose) }
			src := tinySource(t, name)
			want, got := storedTalks(t, src, d, "", always), storedTalks(t, src, d,
				engine.SpeculateAuto, always)
			if len(want) == 0 || !maps.Equal(got, want) {
				t.Errorf("files %v, expected %v", got, want)
			}
		})
	}
	// The block's own keys, values and hidden states are in the files too.
	for _, name := range []string{"qwen3_5_text", "deepseek_v3"} {
		t.Run(name+"'s own drafts", func(t *testing.T) {
			src, d := ownBlock(name)(t), &drafter{}
			none := func(e *engine.Engine) {
				e.AlwaysDraft(func([]int32) []int32 { return nil })
			}
			want := storedTalks(t, src, d, engine.SpeculateAuto, none)
			got := storedTalks(t, src, d, engine.SpeculateAuto,
				func(e *engine.Engine) { e.DraftDepth(4) })
			if len(want) == 0 || !maps.Equal(got, want) {
				t.Errorf("files %v, expected %v", got, want)
			}
		})
	}
}

// storedTalks returns the hashes of the files that three conversations leave in a new block store.
func storedTalks(t *testing.T, src engine.Source, d *drafter, speculate string,
	prepare func(*engine.Engine)) map[string][32]byte {
	t.Helper()
	dir := t.TempDir()
	store := openStore(t, dir)
	e := openModel(t, src, engine.Options{BlockStore: store, ContextTokens: 1024,
		KeptStates: 30, Speculate: speculate})
	prepare(e)
	for i := range 3 {
		q := engine.Request{Prompt: someIDs(i, 200+50*i), MaxTokens: 90, IgnoreEOS: true,
			Sampling: sample.Params{Temperature: 0.7, Seed: new(uint64(i))}}
		for range 3 {
			tokens, _, _ := answer(t, submit(t, e, q))
			all := slices.Concat(q.Prompt, tokens)
			d.answers = append(d.answers, all)
			q.Prompt = append(slices.Clone(all), 5, 6, 7)
		}
	}
	t.Logf("%d drafts", e.Stats().DraftTokens)
	e.Close()
	store.Close()
	files := map[string][32]byte{}
	names, _ := filepath.Glob(filepath.Join(dir, "blocks", "*", "*.safetensors"))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		const checksum = 4
		data = data[8+binary.LittleEndian.Uint64(data):]
		files[filepath.Base(name)] = sha256.Sum256(data[:len(data)-checksum])
	}
	return files
}

// TestDraftsOfFailedSteps: passes with drafts that fail leave no memory behind.
func TestDraftsOfFailedSteps(t *testing.T) {
	o := engine.Options{NoPrefixCache: true, MaxSequences: 4, Speculate: engine.SpeculateAuto}
	e := openModel(t, tinySource(t, "qwen3_5_text"), o)
	d := &drafter{r: rand.New(rand.NewPCG(1, 2)), depth: 5, wrong: 0.3, vocab: 200}
	ask := engine.Request{Prompt: someIDs(1, 40), MaxTokens: 30, IgnoreEOS: true}
	want, _, _ := collect(t, submit(t, e, ask))
	d.answers = [][]int32{slices.Concat(ask.Prompt, want)}
	e.AlwaysDraft(d.propose)
	passes, broken := 0, true
	e.ReplaceModel(func(m models.Model) models.Model {
		return hooked{m, func(tokens []int32) {
			if passes++; broken && passes%29 == 0 {
				panic("a fault in a kernel")
			}
		}}
	})
	failed := 0
	for range 10 {
		var streams []*engine.Stream
		for range 6 {
			streams = append(streams, submit(t, e, ask))
		}
		for _, s := range streams {
			if got, _, done := collect(t, s); done.Finish == engine.FinishError {
				failed++
			} else if !slices.Equal(got, want) {
				t.Errorf("got %d, expected %d", got, want)
			}
		}
	}
	if idle(t, e); failed == 0 || failed == 60 {
		t.Errorf("%d of 60 requests failed", failed)
	}
	if err := e.CheckMemory(); err != nil {
		t.Error(err)
	}
	broken = false
	if got, _, _ := collect(t, submit(t, e, ask)); !slices.Equal(got, want) {
		t.Errorf("got %d, expected %d", got, want)
	}
}

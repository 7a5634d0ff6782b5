package engine_test

// A DFlash drafter. That of the tests is random, so its drafts are wrong, and change nothing. What
// it drafts after the same tokens must be the same wherever its keys and values come from.

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// dflashSource returns the drafter of the tiny model qwen3_5_text, with other keys in config.json.
func dflashSource(t *testing.T, keys map[string]any) engine.Source {
	t.Helper()
	dir := t.TempDir()
	from := filepath.Join("models", "testdata", "dflash", "qwen3_5_text")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, keys)
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return engine.Source{Dir: dir}
}

// otherTarget are the keys of a drafter for a model of so many layers.
func otherTarget(layers int) map[string]any {
	return map[string]any{"num_target_layers": layers, "dflash_config": map[string]any{
		"mask_token_id": 319, "target_layer_ids": []int{0, layers / 2, layers - 1}}}
}

// TestDFlash: answers with drafts at several depths are those of plain decoding, alone and in a
// crowd of more requests than run at once, greedily and at random, for two turns of a conversation.
func TestDFlash(t *testing.T) {
	targets, depths := map[string]map[string]any{"qwen3_5_text": nil, "qwen3": otherTarget(4),
		"gemma3_text": otherTarget(6)}, []int{0, 1, 3, 8}
	if testing.Short() { // under the race detector
		targets, depths = map[string]map[string]any{"qwen3_5_text": nil}, []int{3}
	}
	for name, keys := range targets {
		t.Run(name, func(t *testing.T) {
			src, drafter := tinySource(t, name), dflashSource(t, keys)
			right, drafts := sameWithDraftModel(t, src, drafter,
				engine.Options{MaxSequences: 4, ContextTokens: 1024, KVBits: "(8, 4)"},
				draftPrompts(), depths, true)
			t.Logf("%d of %d drafts were right", right, drafts)
			if drafts < 300 || right*4 > drafts {
				t.Errorf("%d of %d drafts were right, expected few of some hundreds", right, drafts)
			}
		})
	}
}

// blocks has what was drafted, by the tokens before it.
type blocks map[string][]int32

// watch adds what an engine drafts, and reports drafts that are not those of before.
func (b blocks) watch(t *testing.T, e *engine.Engine, same, other *int) {
	e.WatchBlocks(func(known, block []int32) {
		key := fmt.Sprint(known, len(block))
		switch before, ok := b[key]; {
		case !ok:
			b[key] = slices.Clone(block)
			*other++
		case !slices.Equal(before, block):
			t.Errorf("after %d tokens: drafts %d, before %d", len(known), block, before)
		default:
			*same++
		}
	})
}

// TestDFlashKeepsItsCache: what is drafted after the same tokens is the same when the prompt comes
// from the prefix cache, in memory or after a restart from disk, and in a crowd.
func TestDFlashKeepsItsCache(t *testing.T) {
	for name, keys := range map[string]map[string]any{"qwen3_5_text": nil,
		"qwen3": otherTarget(4)} {
		t.Run(name, func(t *testing.T) {
			src, drafter := tinySource(t, name), dflashSource(t, keys)
			dir, known := t.TempDir(), blocks{}
			same, other := 0, 0
			o := engine.Options{MaxSequences: 4, ContextTokens: 1024, ModelName: name}
			answers := func(how string, cached bool, ask func(*engine.Engine, engine.Request)) {
				t.Helper()
				store := openStore(t, dir)
				o.BlockStore = store
				e := withDraftModel(t, src, drafter, o)
				e.DraftDepth(3)
				same, other = 0, 0
				known.watch(t, e, &same, &other)
				for i := range 4 {
					ask(e, engine.Request{Prompt: someIDs(i, 300+40*i), MaxTokens: 16,
						IgnoreEOS: true, NoCache: !cached})
				}
				idle(t, e)
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d blocks as before, %d others", how, same, other)
			}
			alone := func(e *engine.Engine, r engine.Request) { collect(t, submit(t, e, r)) }
			answers("first", false, alone)
			if other < 40 {
				t.Fatalf("%d blocks, expected some more", other)
			}
			first := other
			twice := func(e *engine.Engine, r engine.Request) {
				alone(e, r)
				_, _, done := collect(t, submit(t, e, r))
				if done.Usage.CachedTokens < 256 {
					t.Errorf("%d tokens were cached", done.Usage.CachedTokens)
				}
			}
			answers("from memory", true, twice)
			if same < 2*first || other > 0 {
				t.Errorf("from memory: %d blocks as before, %d others, expected %d", same, other,
					2*first)
			}
			answers("after a restart", true, func(e *engine.Engine, r engine.Request) {
				_, _, done := collect(t, submit(t, e, r))
				// The states of the other model are too large to be stored for so few tokens.
				if name == "qwen3" && done.Usage.StoredTokens < 256 {
					t.Errorf("%d tokens came from disk", done.Usage.StoredTokens)
				}
			})
			if same < first || other > 0 {
				t.Errorf("after a restart: %d blocks as before, %d others, expected %d", same,
					other, first)
			}
			var streams []*engine.Stream
			answers("in a crowd", false, func(e *engine.Engine, r engine.Request) {
				if streams = append(streams, submit(t, e, r)); len(streams) == 4 {
					for _, s := range streams {
						collect(t, s)
					}
				}
			})
			if same < first/2 {
				t.Errorf("in a crowd: %d blocks as before, %d others", same, other)
			}
		})
	}
}

// TestDFlashBlocks: an engine drafts what the model and the drafter do that are run by hand, which
// models.TestBlocksEqualMLXVLM compares with the reference.
func TestDFlashBlocks(t *testing.T) {
	src, drafter := tinySource(t, "qwen3_5_text"), dflashSource(t, nil)
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
	if err := models.AddDFlash(m, weights(drafter)); err != nil {
		t.Fatal(err)
	}
	byHand := runner.New(d, m, runner.Options{KV: cache.Default(), Pages: 8, Slots: 1,
		BatchRows: 256, LogitsRows: 256})
	span := kernels.Span{Pages: []int32{3, 1, 0, 2, 7, 6, 5, 4}}
	e := withDraftModel(t, src, drafter, engine.Options{ContextTokens: 512, MaxSequences: 2})
	e.DraftDepth(4)
	compared := 0
	e.WatchBlocks(func(known, got []int32) {
		last := len(known) - 1
		span.Pos, span.Rows = 0, last
		if _, err := byHand.Step(known[:last], []kernels.Span{span}, nil); err != nil {
			t.Error(err)
			return
		}
		tokens, rows := []int32{known[last]}, []int32{}
		for i := range got {
			tokens, rows = append(tokens, 319), append(rows, int32(i+1))
		}
		span.Pos, span.Rows = last, len(tokens)
		logits, err := byHand.DraftBlocks(tokens, []kernels.Span{span}, rows)
		if err != nil {
			t.Error(err)
			return
		}
		for i, token := range got {
			if want := mostLikely(logits[i*320:][:320]); token != want {
				t.Errorf("after %d tokens, draft %d: %d, by hand %d", len(known), i, token, want)
			}
			compared++
		}
	})
	for i := range 3 {
		collect(t, submit(t, e, engine.Request{Prompt: someIDs(i, 40+50*i), MaxTokens: 24,
			IgnoreEOS: true}))
	}
	if compared < 200 {
		t.Errorf("%d drafts were compared, expected some hundreds", compared)
	}
}

// TestDFlashWays: only the ways that a drafter belongs to use it, in the options of the engine and
// of a request.
func TestDFlashWays(t *testing.T) {
	src, drafter := tinySource(t, "qwen3_5_text"), dflashSource(t, nil)
	o := engine.Options{MaxSequences: 2, ContextTokens: 1024}
	e := withDraftModel(t, src, drafter, o)
	if got := e.Info().Drafter; got != engine.SpeculateDFlash {
		t.Errorf("the drafter's way is %q", got)
	}
	e.DraftDepth(3)
	for how, drafts := range map[string]bool{engine.SpeculateDFlash: true,
		engine.SpeculateDraft: false, engine.SpeculateMTP: false, engine.SpeculateLookup: false,
		engine.SpeculateOff: false} {
		_, _, done := collect(t, submit(t, e, engine.Request{Prompt: someIDs(3, 40), MaxTokens: 40,
			IgnoreEOS: true, Speculate: how}))
		u := done.Usage
		if drafts != (u.DraftModelTokens > 0) || drafts && u.DraftTokens != u.DraftModelTokens {
			t.Errorf("%q: %d drafts, %d of them the drafter's", how, u.DraftTokens,
				u.DraftModelTokens)
		}
	}
	for _, c := range []struct {
		way  string
		from engine.Source
		says string
	}{{engine.SpeculateDraft, drafter,
		"it is a DFlash drafter, whose way to decode ahead is dflash"},
		{engine.SpeculateDFlash, src, "it is a model, expected a DFlash drafter"},
		{engine.SpeculateDFlash, drafter, ""}} {
		o.Speculate = c.way
		o.DraftModel = &engine.DraftModel{Source: c.from, Required: true}
		if _, err := engine.Describe(src, o); c.says == "" && err != nil ||
			c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, expected %q", c.way, err, c.says)
		}
	}
}

// TestDFlashTokens: --num-draft-tokens and the size of a block bound what is drafted.
func TestDFlashTokens(t *testing.T) {
	src := tinySource(t, "qwen3_5_text")
	for _, c := range []struct{ tokens, block, most int }{{0, 8, 7}, {2, 8, 2}, {5, 4, 3},
		{0, 16, 8}} {
		o := engine.Options{MaxSequences: 2, ContextTokens: 512, Speculate: engine.SpeculateAuto,
			DraftModel: &engine.DraftModel{Source: dflashSource(t,
				map[string]any{"block_size": c.block}), Required: true, Tokens: c.tokens}}
		e := openModel(t, src, o)
		e.DraftDepth(8)
		most := 0
		e.WatchBlocks(func(_, block []int32) { most = max(most, len(block)) })
		collect(t, submit(t, e, engine.Request{Prompt: someIDs(3, 40), MaxTokens: 40,
			IgnoreEOS: true}))
		if most != c.most {
			t.Errorf("%+v: %d drafts", c, most)
		}
	}
}

// TestDFlashNeed: the figures of what a model needs include its drafter.
func TestDFlashNeed(t *testing.T) {
	src := tinySource(t, "qwen3")
	o := engine.Options{MaxSequences: 1, ContextTokens: 512, KVFormat: "f16",
		Speculate: engine.SpeculateLookup}
	describe := func(o engine.Options) engine.Description {
		t.Helper()
		d, err := engine.Describe(src, o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	alone := describe(o)
	o.Speculate = engine.SpeculateAuto
	o.DraftModel = &engine.DraftModel{Source: dflashSource(t, otherTarget(4))}
	both := describe(o)
	// Two layers of 2 KV heads of 32 dimensions: 2 bytes for each key and each value.
	if got := both.KVBytesPerToken - alone.KVBytesPerToken; got != 2*2*2*32*2 {
		t.Errorf("a token needs %d bytes more, expected 512", got)
	}
	file, err := os.Stat(filepath.Join(o.DraftModel.Source.Dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	// The file, less its header. Its 10 norms are copies and the rotary frequencies are computed,
	// each in a page of memory.
	weights := both.Need.WeightsBytes - alone.Need.WeightsBytes
	if weights < file.Size()-4096 || weights > file.Size()+11*4096 {
		t.Errorf("its weights need %d bytes, its file has %d", weights, file.Size())
	}
	if both.Need.ScratchBytes <= alone.Need.ScratchBytes {
		t.Errorf("with a drafter %+v, without %+v", both.Need, alone.Need)
	}
	o.AvailableBytes = both.Need.TotalBytes() - 1
	if got := describe(o); got.KVBytesPerToken != alone.KVBytesPerToken {
		t.Errorf("it is planned with %d bytes available of %d", o.AvailableBytes,
			both.Need.TotalBytes())
	}
}

// TestDFlashRefused: a drafter that cannot be used is refused with a sentence if it is required.
func TestDFlashRefused(t *testing.T) {
	src := tinySource(t, "qwen3_5_text")
	windows := map[string]any{"layer_types": []string{"sliding_attention", "full_attention"},
		"sliding_window": 64}
	for _, c := range []struct {
		keys map[string]any
		o    engine.Options
		says string
	}{
		{map[string]any{"vocab_size": 321}, engine.Options{},
			"it drafts for a model with vocab_size 321"},
		{otherTarget(4), engine.Options{}, "it drafts for a model of 4 layers"},
		{nil, engine.Options{MaxKVTokens: 64}, "KV cache is limited to 64 tokens"},
		{windows, engine.Options{KVStartTokens: 512}, "some of its layers have a window"},
		{windows, engine.Options{}, ""},
		{nil, engine.Options{KVStartTokens: 512}, ""},
	} {
		c.o.Speculate = engine.SpeculateAuto
		c.o.DraftModel = &engine.DraftModel{Source: dflashSource(t, c.keys), Required: true}
		_, err := engine.Describe(src, c.o)
		if c.says == "" && err != nil || c.says != "" && (err == nil ||
			!strings.Contains(err.Error(), "draft model cannot be used") ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: got %v, expected %q", c.keys, err, c.says)
		}
	}
	_, err := engine.Describe(dflashSource(t, nil), engine.Options{})
	if err == nil || !strings.Contains(err.Error(), "This is a DFlash drafter") {
		t.Errorf("opened by itself: got %v", err)
	}
}

// TestDFlashStored: what a model has on disk with one drafter is not read with another.
func TestDFlashStored(t *testing.T) {
	src := tinySource(t, "qwen3_5_text")
	stored := func(drafter engine.Source) string {
		store := openStore(t, t.TempDir())
		e := withDraftModel(t, src, drafter, engine.Options{ContextTokens: 512, BlockStore: store})
		defer e.Close()
		return e.StoredModel().Format
	}
	one, other := dflashSource(t, nil), dflashSource(t, nil)
	name := filepath.Join(other.Dir, "model.safetensors")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-100] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if a, b := stored(one), stored(dflashSource(t, nil)); a != b {
		t.Errorf("%q and %q with the same drafter", a, b)
	}
	if a, b := stored(one), stored(other); a == b {
		t.Errorf("%q with both drafters", a)
	}
}

// mostLikely returns the index of the largest logit, the first of equal ones.
func mostLikely(logits []float32) (token int32) {
	for i, l := range logits {
		if l > logits[token] {
			token = int32(i)
		}
	}
	return token
}

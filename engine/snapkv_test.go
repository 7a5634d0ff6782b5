package engine_test

// SnapKV: the tokens after a long prompt attend to a part of it.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/metal"
	"headroom/metal/sim"
)

// snapKV returns options with which prompts of at least from tokens select so many positions.
func snapKV(o engine.Options, tokens, from int) engine.Options {
	o.SnapKV, o.SnapKVTokens, o.SnapKVFrom = true, tokens, from
	return o
}

// sameAnswers compares the answers of two engines to a request.
func sameAnswers(t *testing.T, got, want *engine.Engine, r engine.Request) (same bool, cached int) {
	t.Helper()
	tokens, logprobs, cached := answer(t, submit(t, got, r))
	others, otherLogprobs, _ := answer(t, submit(t, want, r))
	return slices.Equal(tokens, others) && slices.Equal(logprobs, otherLogprobs), cached
}

// TestSnapKV compares answers with and without SnapKV: to a prompt that is too short, and to one
// whose selection has all candidates. Their bits are those of plain decoding. If the selection has
// fewer, the answer differs after its first token, and the next turn does not.
func TestSnapKV(t *testing.T) {
	for _, c := range []struct {
		name string
		o    engine.Options
	}{
		{"qwen3_5_text", engine.Options{}}, {"qwen3_5_text", engine.Options{StateFormat: "int8"}},
		{"qwen3", engine.Options{KVFormat: "f16"}}, {"qwen3", engine.Options{KVBits: "(8, 4)"}},
		{"qwen3", engine.Options{KVFormat: "q4_0"}},
		{"qwen3", engine.Options{KVBits: "4", KVStartTokens: 256}}, {"gemma2", engine.Options{}},
		{"gemma3_text", engine.Options{}}, {"gemma4_text", engine.Options{}},
		{"gpt_oss", engine.Options{}}, {"deepseek_v3", engine.Options{}},
		{"glm4_moe_lite", engine.Options{KVFormat: "f16"}},
	} {
		t.Run(fmt.Sprintf("%s %+v", c.name, c.o.KVFormat+c.o.KVBits), func(t *testing.T) {
			src, o := tinySource(t, c.name), c.o
			o.ContextTokens, o.MaxSequences, o.Threads = 2048, 2, 2
			plain := openModel(t, src, o)
			prompt := someIDs(1, 1100)
			// 1100 - 512 is in the page at 576, and the first 128 positions, or 512 of a start in
			// float16, are always kept.
			all := 576 - 128
			if o.KVStartTokens > 0 {
				all = 576 - 512
			}
			r := engine.Request{Prompt: prompt, MaxTokens: 12, IgnoreEOS: true}
			for _, way := range [][2]int{{all, 1000}, {32, 1101}} {
				e := openModel(t, src, snapKV(o, way[0], way[1]))
				if same, _ := sameAnswers(t, e, plain, r); !same {
					t.Errorf("%d positions of prompts from %d tokens on: the answer differs",
						way[0], way[1])
				}
			}
			snap := openModel(t, src, snapKV(o, 32, 1000))
			if same, _ := sameAnswers(t, snap, plain, r); same && o.KVStartTokens == 0 {
				t.Error("the answer with 32 selected positions is that of plain decoding")
			}
			tokens, _, _ := answer(t, submit(t, snap, r))
			next := r
			next.Prompt, next.MaxTokens = slices.Concat(prompt, tokens, someIDs(2, 50)), 1
			if same, cached := sameAnswers(t, snap, plain, next); !same || cached < 1024 {
				t.Errorf("the next turn differs from that of plain decoding, or only %d tokens of "+
					"it were cached", cached)
			}
			idle(t, snap)
		})
	}
}

// TestSnapKVExact checks that an answer with a selection depends on nothing but its prompt: not on
// threads, chunks, other requests, preemption, the prefix cache in memory and on disk, and drafts.
func TestSnapKVExact(t *testing.T) {
	for _, name := range []string{"qwen3_5_text", "qwen3", "gemma3_text"} {
		t.Run(name, func(t *testing.T) {
			src := tinySource(t, name)
			base := snapKV(engine.Options{ContextTokens: 1400, KeptStates: 6}, 64, 800)
			alone := base
			alone.MaxSequences, alone.Threads, alone.NoPrefixCache = 1, 1, true
			plain := openModel(t, src, alone)
			var requests []engine.Request
			var want [][]int32
			var wantLogprobs [][]float32
			for i := range 5 {
				r := engine.Request{Prompt: slices.Concat(someIDs(i%2, 700), someIDs(i, 60+70*i)),
					MaxTokens: 20 + 10*i, IgnoreEOS: true}
				tokens, logprobs, _ := answer(t, submit(t, plain, r))
				requests, want = append(requests, r), append(want, tokens)
				wantLogprobs = append(wantLogprobs, logprobs)
			}
			check := func(what string, e *engine.Engine) (cached int) {
				t.Helper()
				var streams []*engine.Stream
				for _, r := range requests {
					streams = append(streams, submit(t, e, r))
				}
				for i, s := range streams {
					got, logprobs, n := answer(t, s)
					cached += n
					if !slices.Equal(got, want[i]) || !slices.Equal(logprobs, wantLogprobs[i]) {
						t.Errorf("%s: request %d has %v, alone %v", what, i, got, want[i])
					}
				}
				idle(t, e)
				return cached
			}
			for _, chunk := range []int{32, 100, 512} {
				o := base
				o.ChunkTokens, o.Threads, o.MaxSequences = chunk, 3, 3
				o.Speculate = engine.SpeculateAuto
				e := openModel(t, src, o)
				e.FreeRows()
				e.AlwaysDraft(func(tokens []int32) []int32 { // right, and wrong
					for i, r := range requests {
						all := slices.Concat(r.Prompt, want[i])
						if n := len(tokens); n < len(all) && slices.Equal(all[:n], tokens) {
							d := slices.Clone(all[n:min(n+5, len(all))])
							d[len(d)-1] = 3 + d[len(d)-1]%7
							return d
						}
					}
					return nil
				})
				check(fmt.Sprint("chunks of ", chunk), e)
				if e.Stats().DraftTokens == 0 {
					t.Error("no drafts were verified")
				}
				if check("from memory", e) == 0 {
					t.Error("nothing was cached")
				}
			}
			small := base
			small.MaxSequences, small.AvailableBytes = 3, pagesFor(t, src, base, 52)
			e := openModel(t, src, small)
			check("few pages", e)
			if e.Stats().Preemptions == 0 {
				t.Error("no request was preempted")
			}
			dir := t.TempDir()
			for i := range 2 {
				stored := base
				stored.BlockStore = openStore(t, dir)
				e := openModel(t, src, stored)
				if n := check("from disk", e); i > 0 && n == 0 {
					t.Error("nothing was read from disk")
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
				_ = stored.BlockStore.Close()
			}
		})
	}
}

// pagesFor returns the memory for a model with so many pages.
func pagesFor(t *testing.T, src engine.Source, o engine.Options, pages int64) int64 {
	t.Helper()
	o.MaxSequences = 3
	d, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	return d.Need.TotalBytes() - d.Need.KVBytes + 2*pages*d.KVBytesPerToken*32
}

// TestSnapKVRefused checks the options with which SnapKV cannot be used.
func TestSnapKVRefused(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"a limit":     {SnapKV: true, MaxKVTokens: 1024},
		"a GPU":       {SnapKV: true, Device: engine.DeviceSim},
		"less than 0": {SnapKV: true, SnapKVTokens: -1},
	} {
		if err := o.Check(); problem.From(err).Code != problem.BadRequest {
			t.Errorf("%s: %v, expected a refusal", name, err)
		}
	}
}

// TestSnapKVOnGPU checks that SnapKV is refused if the default device turns out to be a GPU.
func TestSnapKVOnGPU(t *testing.T) {
	gpu, err := sim.Open(sim.Options{})
	if err != nil {
		t.Skip(err)
	}
	_, err = engine.Open(context.Background(), tinySource(t, "qwen3"), engine.Options{
		SnapKV: true, OpenMetal: func() (metal.Device, error) { return gpu, nil }})
	if want := "SnapKV runs on the CPU only"; problem.From(err).Message != want {
		t.Errorf("got %v, expected: %s", err, want)
	}
}

// TestSnapKVWindows lets SnapKV run a model in which all layers have a window. There is nothing to
// select, and a prompt that fills the context has pages.
func TestSnapKVWindows(t *testing.T) {
	src := tinySource(t, "mistral")
	path := filepath.Join(src.Dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"sliding_window": null`), []byte(`"sliding_window": 64`), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	o := engine.Options{MaxSequences: 1, ContextTokens: 1024}
	r := engine.Request{Prompt: someIDs(1, 1000), MaxTokens: 12, IgnoreEOS: true}
	if same, _ := sameAnswers(t, openModel(t, src, snapKV(o, 256, 600)), openModel(t, src, o),
		r); !same {
		t.Error("the answer differs")
	}
}

// TestSnapKVTooMany checks that a selection of more positions than any prompt has takes no memory
// and leaves the context as long.
func TestSnapKVTooMany(t *testing.T) {
	src := tinySource(t, "qwen3")
	plain, err := engine.Describe(src, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tokens := range []int{plain.ContextTokens, 1 << 40, math.MaxInt} {
		got, err := engine.Describe(src, snapKV(engine.Options{}, tokens, 1))
		if err != nil || got.PlannedTokens != plain.PlannedTokens || got.Need != plain.Need {
			t.Errorf("%d positions: %d tokens and %+v, %v, expected %d tokens and %+v", tokens,
				got.PlannedTokens, got.Need, err, plain.PlannedTokens, plain.Need)
		}
	}
}

// TestSnapKVRecall counts the answers of the bundled model that stay correct with SnapKV, by the
// number of selected positions. They depend on a fact at the start of a prompt, for which its end
// asks. In the long form the prompts have 5,800 and 18,000 tokens, and -v logs the table of
// cache/FORMATS.md. In the short form they have 1,800.
func TestSnapKVRecall(t *testing.T) {
	if testing.Short() {
		t.Skip("computes long prompts")
	}
	text, err := os.ReadFile(filepath.Join("models", "testdata", "demo", "demo_cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Prompt      string
		PromptLen   int     `json:"prompt_len"`
		GreedyIDs   []int32 `json:"greedy_ids"`
		SmallestGap float64 `json:"smallest_gap"`
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	long := long()
	budgets := []int{256}
	if long {
		budgets = []int{4096, 2048, 1024}
	}
	for _, tokens := range budgets {
		e := open(t, snapKV(engine.Options{MaxSequences: 1, ContextTokens: 20000}, tokens, 1))
		right, tried := map[int]int{}, map[int]int{}
		for i, c := range cases {
			size := 18000
			if c.PromptLen < 10000 {
				size = 5800
			}
			if c.PromptLen < 3000 {
				size = 1800
			}
			if c.PromptLen < 1600 || c.SmallestGap <= 0.01 || (size == 1800) == long ||
				!long && i%2 > 0 {
				continue
			}
			tried[size]++
			got, _, _ := answer(t, submit(t, e, engine.Request{Prompt: encode(e, c.Prompt),
				MaxTokens: len(c.GreedyIDs), IgnoreEOS: true}))
			if slices.Equal(got, c.GreedyIDs) {
				right[size]++
			} else {
				t.Logf("%d of %d positions: %q, expected %q", tokens, c.PromptLen,
					e.Tokenizer().Decode(got, false), e.Tokenizer().Decode(c.GreedyIDs, false))
			}
		}
		t.Logf("| %d | %d of %d | %d of %d |", tokens, right[5800], tried[5800], right[18000],
			tried[18000])
		if !long && (right[1800] == 0 || right[1800] < tried[1800]) {
			t.Errorf("%d positions: %d of %d answers are correct", tokens, right[1800], tried[1800])
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

package parity

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/tokenizer"
)

func demoSource(t *testing.T) engine.Source {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	return engine.Source{FS: files}
}

// demoPrompts are two short prompts, and one that is long enough for the cache on disk.
func demoPrompts(t *testing.T) (prompts [][]int32) {
	text, err := engine.ReadTextProcessor(demoSource(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"What is a KV cache?", "Sort: pear, apple, fig",
		strings.Repeat("The fox looked for the drum in the school. ", 40)} {
		prompt, err := text.Template().Render(t.Context(), chat.Input{AddGenerationPrompt: true,
			Messages: []chat.Message{{Role: "user", Content: p}}})
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, text.Tokenizer().Encode(prompt, tokenizer.EncodeOptions{}))
	}
	return prompts
}

// opens returns an Open that opens the demo model, but the model of sources for the times that it
// names, counted from 1. It fails the test if two engines are open at once.
func opens(t *testing.T, sources map[int]engine.Source) func(context.Context,
	engine.Options) (*engine.Engine, error) {
	n := 0
	var last *engine.Engine
	return func(ctx context.Context, o engine.Options) (*engine.Engine, error) {
		if last != nil {
			if s, err := last.Submit(engine.Request{Prompt: []int32{1}}); err == nil {
				s.Cancel()
				t.Error("two engines are open at once")
			}
		}
		n++
		src, ok := sources[n]
		if !ok {
			src = demoSource(t)
		}
		e, err := engine.Open(ctx, src, o)
		last = e
		return e, err
	}
}

// TestDraftModel: the drafts of a draft model have a row of their own.
func TestDraftModel(t *testing.T) {
	r := run(t, engine.Options{DraftModel: &engine.DraftModel{Source: demoSource(t),
		Required: true}}, nil)
	if row := r.row(t, AheadDraft); row.NotTried != "" || row.EqualTokens != row.Tokens ||
		!strings.Contains(row.Note, "drafts were right") {
		t.Errorf("%+v", row)
	}
	if row := r.row(t, aheadBlock); !strings.Contains(row.NotTried, "in its place") {
		t.Errorf("%+v", row)
	}
	if !r.Equal {
		t.Errorf("%+v", r)
	}
}

// TestDraftModelUnused: a draft model that a setting names and that cannot draft has a row that
// says why. The model's own block drafts then.
func TestDraftModelUnused(t *testing.T) {
	other := engine.Random([]byte(`{"model_type": "qwen3", "hidden_size": 128, "vocab_size": 256,
		"intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
		"num_key_value_heads": 1, "head_dim": 64, "max_position_embeddings": 4096,
		"quantization": {"bits": 4, "group_size": 64}}`))
	r := run(t, engine.Options{DraftModel: &engine.DraftModel{Source: other, Name: "other"}}, nil)
	if row := r.row(t, AheadDraft); !strings.Contains(row.NotTried, "its vocabulary is another") {
		t.Errorf("%+v", row)
	}
	if row := r.row(t, aheadBlock); row.NotTried != "" || !r.Equal {
		t.Errorf("%+v, equal %t", row, r.Equal)
	}
}

// TestDFlash: the drafts of a DFlash drafter have a row of their own. This one is random.
func TestDFlash(t *testing.T) {
	drafter := engine.Random([]byte(`{"model_type": "qwen3", "hidden_size": 256,
		"vocab_size": 2304, "intermediate_size": 256, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
		"max_position_embeddings": 32768, "num_target_layers": 12, "block_size": 8,
		"quantization": {"bits": 4, "group_size": 64},
		"dflash_config": {"mask_token_id": 7, "target_layer_ids": [1, 5, 10]}}`))
	r := run(t, engine.Options{DraftModel: &engine.DraftModel{Source: drafter, Required: true}},
		nil)
	if row := r.row(t, aheadDFlash); row.NotTried != "" || row.EqualTokens != row.Tokens ||
		!strings.Contains(row.Note, "drafts were right") {
		t.Errorf("%+v", row)
	}
	if row := r.row(t, aheadBlock); row.NotTried != "the DFlash drafter drafts in its place" {
		t.Errorf("%+v", row)
	}
	if !r.Equal {
		t.Errorf("%+v", r)
	}
}

func run(t *testing.T, o engine.Options, sources map[int]engine.Source) *Report {
	t.Helper()
	o.Device, o.Threads = engine.DeviceCPU, 1
	if o.ContextTokens == 0 {
		o.ContextTokens = 2048
	}
	r, err := Run(t.Context(), Options{Open: opens(t, sources), Engine: o,
		Prompts: demoPrompts(t), Tokens: 24, Dir: t.TempDir(), NoOther: "no GPU"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ways are the rows of every report.
var ways = []string{"plain, one by one", "in a crowd", "from the prefix cache", "after a restart",
	aheadAuto, aheadLookup, aheadBlock, aheadWrong, aheadCrowd, "KV cache in f16", "on the GPU"}

// row returns the row of that name.
func (r *Report) row(t *testing.T, way string) Row {
	for _, w := range r.Ways {
		if w.Way == way {
			return w
		}
	}
	t.Errorf("there is no row %q", way)
	return Row{}
}

// TestEqual: the demo model gives the same answers in every way, and each way does what it says.
func TestEqual(t *testing.T) {
	r := run(t, engine.Options{}, nil)
	if !r.Equal || len(r.Ways) != len(ways) || !strings.HasPrefix(r.Device, "CPU, ") ||
		!strings.HasPrefix(r.KVFormat, "K8 ") || r.StateFormat != "f32" {
		t.Errorf("%+v", r)
	}
	for i, way := range ways[:10] {
		row := r.row(t, way)
		if row.NotTried != "" || row.Answers != 3 || row.Tokens < 30 ||
			row.ReadTokensPerSecond <= 0 || row.DecodeTokensPerSecond <= 0 ||
			row.MustEqual != (i > 0 && i < 9) {
			t.Errorf("%+v", row)
		}
		if row.MustEqual && (row.EqualAnswers != 3 || row.EqualTokens != row.Tokens ||
			row.LargestDifference != 0 || row.Partings != nil) {
			t.Errorf("%+v", row)
		}
	}
	for way, note := range map[string]string{"from the prefix cache": "were cached",
		"after a restart": "came from disk", aheadBlock: "drafts were right",
		aheadWrong: "drafts were right", aheadCrowd: "drafts were right"} {
		got := r.row(t, way).Note
		if !strings.HasSuffix(got, note) || strings.HasPrefix(got, "0 ") {
			t.Errorf("%s: %q, expected some that %s", way, got, note)
		}
	}
	if f16 := r.row(t, "KV cache in f16"); f16.LargestDifference == 0 || f16.Note != "f16" {
		t.Errorf("%+v", f16)
	}
	if gpu := r.row(t, "on the GPU"); gpu.NotTried != "no GPU" {
		t.Errorf("%+v", gpu)
	}
}

// TestDifferent opens a model with other weights for one of the ways. Only rows that may differ
// leave the result equal.
func TestDifferent(t *testing.T) {
	config, err := fs.ReadFile(demo.Files, "model/config.json")
	if err != nil {
		t.Fatal(err)
	}
	other := engine.Random(config)
	for _, c := range []struct {
		open  int
		ways  []string // that differ
		equal bool
	}{{2, []string{"after a restart"}, false},
		{3, []string{aheadAuto, aheadLookup, aheadBlock, aheadWrong, aheadCrowd}, false},
		{4, []string{"KV cache in f16"}, true}} {
		r := run(t, engine.Options{}, map[int]engine.Source{c.open: other})
		if r.Equal != c.equal || !strings.Contains(r.Verdict, c.ways[0]+" in 3 of 3 answers") {
			t.Errorf("open %d: equal %t, %s", c.open, r.Equal, r.Verdict)
		}
		for _, way := range ways[1:9] {
			row := r.row(t, way)
			same := true
			for _, w := range c.ways {
				same = same && w != way
			}
			if same != (len(row.Partings) == 0) || same != (row.EqualAnswers == 3) {
				t.Errorf("open %d: %+v", c.open, row)
			}
			for i, p := range row.Partings {
				if p.Prompt != i+1 || p.Token < 1 || p.Plain.Text == "" ||
					p.Plain == p.Other || p.Plain.Logprob >= 0 {
					t.Errorf("open %d: %+v", c.open, p)
				}
			}
		}
	}
}

// TestNotTried: what a model cannot do is in its row.
func TestNotTried(t *testing.T) {
	const noDrafts = "this model has no drafts on this device"
	for _, c := range []struct {
		name string
		o    engine.Options
		want map[string]string
	}{
		{"recurrent, with rings", engine.Options{MaxKVTokens: 64}, map[string]string{
			aheadAuto: noDrafts, aheadLookup: noDrafts, aheadBlock: noDrafts,
			aheadWrong: noDrafts, aheadCrowd: noDrafts}},
		{"no prefix cache", engine.Options{NoPrefixCache: true}, map[string]string{
			"from the prefix cache": "the prefix cache is off",
			"after a restart":       "the prefix cache is off"}},
	} {
		r := run(t, c.o, nil)
		if !r.Equal || !strings.Contains(r.Verdict, "more could not be tried") {
			t.Errorf("%s: %+v", c.name, r)
		}
		for _, way := range ways[:9] {
			if row := r.row(t, way); row.NotTried != c.want[way] {
				t.Errorf("%s: %+v, expected %q", c.name, row, c.want[way])
			}
		}
	}
}

// TestOneSequence: a model with room for one request at a time, and keys and values in f16, which
// are compared with quantized ones.
func TestOneSequence(t *testing.T) {
	r := run(t, engine.Options{MaxSequences: 1, KVFormat: "f16", ContextTokens: 600}, nil)
	if q := r.row(t, "KV cache quantized"); !r.Equal || q.LargestDifference == 0 ||
		!strings.HasPrefix(q.Note, "K8 ") {
		t.Errorf("%+v", r)
	}
}

// TestOtherDevice compares the CPU with another device, here the same one.
func TestOtherDevice(t *testing.T) {
	o := engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 1024}
	r, err := Run(t.Context(), Options{Open: opens(t, nil), Engine: o, Prompts: demoPrompts(t),
		Tokens: 4, Dir: t.TempDir(), Other: engine.DeviceCPU})
	if err != nil {
		t.Fatal(err)
	}
	if gpu := r.row(t, "on the GPU"); gpu.MustEqual || gpu.EqualAnswers != 3 {
		t.Errorf("%+v", gpu)
	}
	// A device that does not open costs its row alone.
	r, err = Run(t.Context(), Options{Open: opens(t, nil), Engine: o, Prompts: demoPrompts(t),
		Tokens: 4, Dir: t.TempDir(), Other: "abacus"})
	if err != nil || !r.Equal || !strings.Contains(r.row(t, "on the GPU").NotTried, "abacus") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCancelled: a check that is cancelled returns the context's error and no result.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Options{Open: opens(t, nil), Prompts: demoPrompts(t), Tokens: 4,
		Engine: engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 1024},
		Dir:    t.TempDir(), Say: func(step, steps int, what string) {
			if step == 3 && steps == 5 && what == "decoded ahead" {
				cancel()
			}
		}})
	if err == nil {
		t.Error("no error")
	}
}

// withBlock are the tiny models that get a block that drafts.
var withBlock = []string{"deepseek_v3", "deepseek_v3_fp8", "deepseek_v3_original", "ernie4_5_moe",
	"glm4_moe", "glm4_moe_lite", "nemotron_h", "qwen3_5_text", "qwen3_next"}

// TestArchitectures checks a random model of each architecture that has a tiny one. All of them
// are equal in every way, and each says what it could not try.
func TestArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("it opens every architecture five times")
	}
	const tiny = "../../engine/models/testdata/tiny"
	folders, err := os.ReadDir(tiny)
	if err != nil {
		t.Fatal(err)
	}
	prompts := make([][]int32, 3)
	for i := range prompts {
		for j := range 20 + 130*i {
			prompts[i] = append(prompts[i], int32(3+(7*j+5*i+j*j)%90))
		}
	}
	checked := 0
	for _, f := range folders {
		config := randomConfig(t, filepath.Join(tiny, f.Name(), "config.json"))
		d, err := engine.DescribeCache(config, engine.Options{})
		if err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		dir := t.TempDir() // a model that is only in memory is not cached on disk
		if err := engine.WriteRandom(dir, config); err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		r, err := Run(t.Context(), Options{Source: engine.Source{Dir: dir}, Prompts: prompts,
			Tokens: 10, Dir: t.TempDir(), NoOther: "no GPU",
			Engine: engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 512}})
		if err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		checked++
		if !r.Equal {
			t.Errorf("%s: %s", f.Name(), r.Verdict)
		}
		rings := slices.ContainsFunc(d.Layers,
			func(l engine.LayerCost) bool { return l.BytesPerToken == 0 && l.Format != "" })
		drafts := r.row(t, aheadWrong)
		if tried := drafts.NotTried == ""; tried != (d.StateBytes == 0 || !rings) {
			t.Errorf("%s: %+v", f.Name(), drafts)
		}
		// These prompts are no conversations, so no states and rings are kept on disk.
		restart := r.row(t, "after a restart")
		if tried := restart.NotTried == ""; tried != (d.StateBytes == 0 && !rings) {
			t.Errorf("%s: %+v", f.Name(), restart)
		}
		block := r.row(t, aheadBlock)
		if tried := block.NotTried == ""; tried != slices.Contains(withBlock, f.Name()) {
			t.Errorf("%s: %+v", f.Name(), block)
		}
	}
	if checked < 20 {
		t.Errorf("%d architectures were found", checked)
	}
}

// randomConfig returns a config.json with a quantization that fits narrow matrices, as random
// models need one.
func randomConfig(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	var config map[string]any
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if slices.Contains(withBlock, filepath.Base(filepath.Dir(name))) {
		config["mtp_num_hidden_layers"], config["num_nextn_predict_layers"] = 1, 1
	}
	if config["qk_nope_head_dim"] == 48.0 { // no groups of 32
		config["qk_nope_head_dim"] = 64
	}
	delete(config, "quantization_config")
	config["quantization"] = map[string]int{"bits": 4, "group_size": 32}
	if err == nil {
		text, err = json.Marshal(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

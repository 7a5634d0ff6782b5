package models_test

// The drafter of blocks, beside mlx-vlm's in float32 (testdata/dflash.py).

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
)

// drafterFolder has the drafter of the tiny model of the same name.
var drafterFolder = filepath.Join("testdata", "dflash", "qwen3_5_text")

// block is what the drafter of the reference drafts after a prompt, whose last token the model has
// not computed.
type block struct {
	Variant string         `json:"variant"`
	Keys    map[string]any `json:"keys"` // of config.json
	Prompt  int            `json:"prompt"`
	Drafts  []struct {
		Token         int32
		Logit, Second float64
	}
}

// withKeys returns the drafter with other keys in its config.json; nil removes one.
func withKeys(t *testing.T, keys map[string]any) checkpoint.Source {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(drafterFolder, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, keys)
	maps.DeleteFunc(config, func(_ string, value any) bool { return value == nil })
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(drafterFolder)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return checkpoint.Source{Dir: dir}
}

// loadDrafted loads a tiny model with a drafter.
func loadDrafted(t *testing.T, d kernels.Device, name string,
	drafter checkpoint.Source) (models.Model, error) {
	t.Helper()
	open := func(src checkpoint.Source) *checkpoint.Weights {
		t.Helper()
		config, err := src.Config()
		if err != nil {
			t.Fatal(err)
		}
		w, err := checkpoint.Open(src, config, d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	m, err := models.Load(open(checkpoint.Source{Dir: filepath.Join("testdata", "tiny", name)}))
	if err != nil {
		t.Fatal(err)
	}
	return m, models.AddDFlash(m, open(drafter))
}

// newDrafted returns a rig of a tiny model with a drafter.
func newDrafted(t *testing.T, d kernels.Device, keys map[string]any, kv cache.Format) *rig {
	t.Helper()
	m, err := loadDrafted(t, d, "qwen3_5_text", withKeys(t, keys))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Runner: runner.New(d, m, runner.Options{KV: kv, Slots: 2, BatchRows: rigRows,
		Pages: rigPages, LogitsRows: rigRows})}
	for i := range int32(16) {
		r.pages[0] = append(r.pages[0], 2*i)
		r.pages[1] = append(r.pages[1], 31-2*i)
	}
	return r
}

// blockOf returns the logits of a block of so many drafts after a token.
func (r *rig) blockOf(t *testing.T, token int32, at, drafts, sequence int) [][]float32 {
	t.Helper()
	tokens, rows := []int32{token}, []int32{}
	for i := range drafts {
		tokens, rows = append(tokens, r.Block().Mask), append(rows, int32(i+1))
	}
	flat, err := r.DraftBlocks(tokens, []kernels.Span{{Rows: 1 + drafts, Pos: at,
		Pages: r.pages[sequence], Slot: int32(sequence)}}, rows)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for i := range drafts {
		out = append(out, slices.Clone(flat[i*r.VocabSize():][:r.VocabSize()]))
	}
	return out
}

func TestBlocksEqualMLXVLM(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(drafterFolder, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	if err := json.Unmarshal(data, &blocks); err != nil {
		t.Fatal(err)
	}
	prompts := readExpected(t, "qwen3_5_text")
	d := cpuDevice(t, 2)
	rigs := map[string]*rig{}
	compared, worst := 0, 0.0
	for _, b := range blocks {
		if rigs[b.Variant] == nil {
			rigs[b.Variant] = newDrafted(t, d, b.Keys, cache.Plain(kernels.F32))
		}
		r, ids := rigs[b.Variant], prompts[b.Prompt].IDs
		last := len(ids) - 1
		r.score(ids[:last], last)
		for i, logits := range r.blockOf(t, ids[last], last, len(b.Drafts), 0) {
			want := b.Drafts[i]
			worst = max(worst, math.Abs(float64(logits[want.Token])-want.Logit))
			compared++
			if best, _ := argmax(logits); best != want.Token &&
				want.Logit-want.Second > decidedGap {
				t.Errorf("%s, prompt %d, draft %d of %d: %d, mlx-vlm has %d", b.Variant, b.Prompt,
					i, len(b.Drafts), best, want.Token)
			}
		}
	}
	t.Logf("%d logits differ by at most %.2g", compared, worst)
	if compared < 100 || worst > logitTolerance {
		t.Errorf("%d logits differ by at most %.2g, expected at most %g", compared, worst,
			logitTolerance)
	}
}

// TestBlocksHaveTheSameBits: what is drafted does not depend on the chunks in which the model has
// read the text, nor on another sequence beside it, nor on what earlier blocks have left in pages.
func TestBlocksHaveTheSameBits(t *testing.T) {
	for name, kv := range map[string]cache.Format{"f32": cache.Plain(kernels.F32),
		"affine": cache.Affine()} {
		ids := someTokens(120)
		r := newDrafted(t, cpuDevice(t, 2), nil, kv)
		r.score(ids[:100], 100)
		want := r.blockOf(t, ids[100], 100, 5, 0)
		r.blockOf(t, ids[3], 100, 7, 0) // the page now has another block
		if !equalBits(r.blockOf(t, ids[100], 100, 5, 0), want) {
			t.Errorf("%s: other drafts after another block", name)
		}
		for _, chunk := range []int{1, 7, 64} {
			r.score(ids[10:110], 100) // another text in the same pages
			r.score(ids[:100], chunk)
			if !equalBits(r.blockOf(t, ids[100], 100, 5, 0), want) {
				t.Errorf("%s: other drafts after chunks of %d", name, chunk)
			}
		}
		r = newDrafted(t, cpuDevice(t, 3), nil, kv)
		r.scoreTogether(slices.Concat(ids[:100], ids[:10]), ids[60:100])
		if !equalBits(r.blockOf(t, ids[100], 100, 5, 0), want) {
			t.Errorf("%s: other drafts with another sequence in the batch", name)
		}
	}
}

// TestBlocksTogether: blocks of two sequences in one step are those of each alone.
func TestBlocksTogether(t *testing.T) {
	ids := someTokens(90)
	r := newDrafted(t, cpuDevice(t, 2), nil, cache.Plain(kernels.F32))
	r.step(slices.Concat(ids[:40], ids[20:90]), kernels.Span{Rows: 40, Pages: r.pages[0]},
		kernels.Span{Row: 40, Rows: 70, Pages: r.pages[1], Slot: 1})
	first, second := r.blockOf(t, ids[5], 40, 3, 0), r.blockOf(t, ids[6], 70, 2, 1)
	mask := r.Block().Mask
	flat, err := r.DraftBlocks([]int32{ids[5], mask, mask, mask, ids[6], mask, mask},
		[]kernels.Span{{Rows: 4, Pos: 40, Pages: r.pages[0]},
			{Row: 4, Rows: 3, Pos: 70, Pages: r.pages[1], Slot: 1}}, []int32{1, 2, 3, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range slices.Concat(first, second) {
		if !slices.Equal(flat[i*r.VocabSize():][:r.VocabSize()], want) {
			t.Errorf("draft %d is another one than alone", i)
		}
	}
}

// TestDrafterRefused: a drafter of another model or of another kind is refused, with what is wrong.
func TestDrafterRefused(t *testing.T) {
	d := cpuDevice(t, 1)
	inner := func(keys map[string]any) map[string]any {
		all := map[string]any{"mask_token_id": 319, "target_layer_ids": []int{1, 3, 6}}
		maps.Copy(all, keys)
		return map[string]any{"dflash_config": all}
	}
	for _, c := range []struct {
		model string
		keys  map[string]any
		says  string // "": nothing is wrong
	}{
		{"qwen3_5_text", nil, ""},
		{"qwen3", map[string]any{"num_target_layers": 4, "dflash_config": map[string]any{
			"mask_token_id": 319, "target_layer_ids": []int{0, 1, 3}}}, ""},
		{"qwen3", nil, "it drafts for a model of 8 layers, the large model has 4"},
		{"qwen3", map[string]any{"num_target_layers": nil},
			"target_layer_ids has layer 6, the large model has layers 0 to 3"},
		{"qwen3_5_text", inner(map[string]any{"target_layer_ids": []int{-1, 3, 6}}),
			"target_layer_ids has layer -1"},
		{"qwen3_5_text", inner(map[string]any{"target_layer_ids": nil}),
			"target_layer_ids has 0 entries"},
		{"qwen3_5_text", inner(map[string]any{"mask_token_id": 320}),
			"mask_token_id is 320, the large model has tokens 0 to 319"},
		{"qwen3_5_text", inner(map[string]any{"mask_token_id": nil}), "no mask_token_id"},
		{"qwen3_5_text", map[string]any{"block_size": 1}, "block_size is 1, expected 2 to"},
		{"qwen3_5_text", map[string]any{"vocab_size": 321},
			"its vocab_size is 321, the large model's is 320"},
		{"qwen3_5_text", map[string]any{"hidden_size": 128},
			"its hidden_size is 128, the large model's is 64"},
		{"qwen3_5_text", inner(map[string]any{"target_layer_ids": []int{1, 3}}),
			"fc.weight is bfloat16 of shape 64 x 192, expected 64 x 128."},
		{"qwen3_5_text", map[string]any{"num_hidden_layers": 1,
			"layer_types": []string{"full_attention"}}, "the drafter has the tensor layers.1."},
		{"qwen3_5_text", map[string]any{"rope_theta": 1e39}, "rope_theta is 1e+39"},
		{"qwen3_5_text", inner(map[string]any{"input_embedding_scale": 1e39}),
			"input_embedding_scale is +Inf, expected a finite number"},
		{"qwen3_5_text", inner(map[string]any{"input_embedding_scale": -1}),
			"input_embedding_scale is -1, expected a finite number"},
		{"gemma4_text", nil, "no DFlash drafter can draft"},
	} {
		_, err := loadDrafted(t, d, c.model, withKeys(t, c.keys))
		if c.says == "" && err != nil || c.says != "" &&
			(err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s, %v: got %v, expected %q", c.model, c.keys, err, c.says)
		}
	}
}

// TestDrafterIsNoModel: a folder with a drafter is not taken for a model.
func TestDrafterIsNoModel(t *testing.T) {
	config, err := checkpoint.Source{Dir: drafterFolder}.Config()
	if err != nil {
		t.Fatal(err)
	}
	if err := models.Check(config); err == nil || !strings.Contains(err.Error(), "DFlash drafter") {
		t.Errorf("got %v, expected that it is a DFlash drafter", err)
	}
}

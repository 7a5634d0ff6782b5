package models_test

// These tests compare the bundled model with Hugging Face transformers 5.17, which computes in
// float32 with the dequantized weights. The model is trained, so errors affect its answers.

import (
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/app/demo"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/engine/tokenizer"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// demoCase is a prompt, with the highest logits after it and the greedy answer of the reference.
type demoCase struct {
	Prompt    string `json:"prompt"`
	PromptLen int    `json:"prompt_len"`
	Top       struct {
		IDs    []int32   `json:"ids"`
		Logits []float64 `json:"logits"`
	} `json:"top"`
	GreedyIDs   []int32 `json:"greedy_ids"`
	SmallestGap float64 `json:"smallest_gap"`
}

// long reports whether the tests run in their long form, as build/test long runs them. The short
// form covers fewer conversations.
func long() bool { return os.Getenv("HEADROOM_LONG") != "" }

// longestCase returns the maximum length of the prompts to test. It is unlimited in the long form
// and 5,800 tokens otherwise. With -short it is 300 tokens, and with the plain Go kernels 50.
func longestCase() int {
	switch {
	case cpu.Best() == cpu.Generic:
		return 50
	case testing.Short():
		return 300
	case long():
		return math.MaxInt
	}
	return 2_000
}

// demoText is a conversation with the negative log-likelihood of its tokens in the reference. Each
// message was encoded separately.
type demoText struct {
	IDs []int32 `json:"ids"`
	NLL float64 `json:"nll_all"`
}

// demoTexts returns every n-th conversation that is short enough, where n is every. A third of them
// have 1,300 tokens or more, the others have 20 to 500.
func demoTexts(t *testing.T, every int) (texts []demoText) {
	t.Helper()
	n := 0
	for _, c := range readJSON[[]demoText](t, "demo_nll.json") {
		if len(c.IDs) > longestCase() {
			continue
		}
		if n%every == 0 {
			texts = append(texts, c)
		}
		n++
	}
	return texts
}

// unlessLong returns n in the short form and 1 in the long form. It also returns 1 with the plain
// Go kernels, because only two conversations are short enough for them.
func unlessLong(n int) int {
	if long() || cpu.Best() == cpu.Generic {
		return 1
	}
	return n
}

func TestDemoEqualsTransformers(t *testing.T) {
	r, tok := newDemo(t, true)
	for i, c := range readJSON[[]demoCase](t, "demo_cases.json") {
		if c.PromptLen > longestCase() {
			t.Logf("case %d of %d tokens runs only in the long form", i, c.PromptLen)
			continue
		}
		ids := tok.Encode(c.Prompt, tokenizer.EncodeOptions{})
		if len(ids) != c.PromptLen {
			t.Errorf("case %d: prompt has %d tokens, expected %d", i, len(ids), c.PromptLen)
			continue
		}
		logits := r.last(ids)
		for j, id := range c.Top.IDs {
			if got := float64(logits[id]); !(math.Abs(got-c.Top.Logits[j]) <= logitTolerance) {
				t.Errorf("case %d (%d tokens): logit of token %d is %.5f, transformers has %.5f", i,
					len(ids), id, got, c.Top.Logits[j])
				break
			}
		}
		if c.SmallestGap > decidedGap {
			if got := r.greedy(logits, len(ids), len(c.GreedyIDs)); !slices.Equal(got,
				c.GreedyIDs) {
				t.Errorf("case %d (%d tokens): greedy %q, transformers has %q", i, len(ids),
					tok.Decode(got, false), tok.Decode(c.GreedyIDs, false))
			}
		}
	}
}

// TestDemoGreedyWith8BitActivations checks that 8-bit activations, the CPU's default, give the same
// text. They change a logit by a few tenths, so only cases in which the best token always leads by
// more than clearGap are compared.
func TestDemoGreedyWith8BitActivations(t *testing.T) {
	const clearGap = 2
	r, tok := newDemo(t, false)
	for i, c := range readJSON[[]demoCase](t, "demo_cases.json") {
		if c.PromptLen > longestCase() || c.SmallestGap <= clearGap || !long() && i%2 > 0 {
			continue
		}
		ids := tok.Encode(c.Prompt, tokenizer.EncodeOptions{})
		if got := r.greedy(r.last(ids), len(ids), len(c.GreedyIDs)); !slices.Equal(got,
			c.GreedyIDs) {
			t.Errorf("case %d (%d tokens): greedy %q, transformers has %q", i, len(ids),
				tok.Decode(got, false), tok.Decode(c.GreedyIDs, false))
		}
	}
}

// TestDemoLoss compares the summed negative log-likelihood of conversations with the reference.
func TestDemoLoss(t *testing.T) {
	for _, path := range []struct {
		name    string
		float32 bool
		within  float64
	}{{"float32 activations", true, 0.001}, {"8-bit activations", false, 0.005}} {
		r, _ := newDemo(t, path.float32)
		got, want := r.loss(demoTexts(t, unlessLong(3)))
		t.Logf("%s: loss %.4f nats in all, reference %.4f, off by %.4f %%", path.name, got, want,
			100*(got/want-1))
		if math.Abs(got/want-1) > path.within {
			t.Errorf("%s: loss %.4f, reference %.4f, expected within %.1f %%", path.name, got, want,
				100*path.within)
		}
	}
}

// demoRig runs the demo model with pages for one sequence as long as the model's context.
type demoRig struct {
	*runner.Runner
	pages []int32
	specs []cache.LayerSpec
}

const demoChunk = 512

func newDemo(t *testing.T, float32Activations bool) (*demoRig, *tokenizer.Tokenizer) {
	t.Helper()
	return newDemoWith(t, float32Activations, cache.Plain(kernels.F32))
}

func newDemoWith(t *testing.T, float32Activations bool, kv cache.Format) (*demoRig,
	*tokenizer.Tokenizer) {
	t.Helper()
	return newDemoWithState(t, float32Activations, kv, cache.StateFormat{})
}

func newDemoWithState(t *testing.T, float32Activations bool, kv cache.Format,
	state cache.StateFormat) (*demoRig, *tokenizer.Tokenizer) {
	t.Helper()
	return loadDemo(t, float32Activations, kv, state, models.Load)
}

func loadDemo(t *testing.T, float32Activations bool, kv cache.Format, state cache.StateFormat,
	load func(*checkpoint.Weights) (models.Model, error)) (*demoRig, *tokenizer.Tokenizer) {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	src := checkpoint.Source{FS: files}
	config, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	d := kernels.NewCPU(cpu.Options{Float32Activations: float32Activations})
	t.Cleanup(d.Close)
	w, err := checkpoint.Open(src, config, d)
	if err != nil {
		t.Fatal(err)
	}
	m, err := load(w)
	if err != nil {
		t.Fatal(err)
	}
	data, err := src.ReadFile("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	pages := m.Spec().ContextTokens / cache.PageTokens
	start := kv.Start(m.Spec().Layers) / cache.PageTokens // entry i of the page table is page i
	r := &demoRig{Runner: runner.New(d, m,
		runner.Options{KV: kv, State: state, Pages: pages, StartPages: start, Slots: 2,
			BatchRows: demoChunk, LogitsRows: demoChunk})}
	r.specs = m.Spec().Layers
	for i := range pages {
		r.pages = append(r.pages, int32(i))
	}
	return r, tok
}

// last returns the logits after ids.
func (r *demoRig) last(ids []int32) (logits []float32) {
	for from := 0; from < len(ids); from += demoChunk {
		chunk := ids[from:min(from+demoChunk, len(ids))]
		logits = r.step(chunk, from, []int32{int32(len(chunk) - 1)})
	}
	return slices.Clone(logits)
}

func (r *demoRig) step(ids []int32, pos int, rows []int32) []float32 {
	logits, err := r.Step(ids, []kernels.Span{{Rows: len(ids), Pos: pos, Pages: r.pages}}, rows)
	if err != nil {
		panic(err)
	}
	return logits
}

// greedy returns the next n tokens by greedy decoding. logits are those after the first pos tokens.
func (r *demoRig) greedy(logits []float32, pos, n int) (out []int32) {
	for {
		best, _ := argmax(logits)
		if out = append(out, best); len(out) == n {
			return out
		}
		logits = r.step([]int32{best}, pos, []int32{0})
		pos++
	}
}

// nll returns the summed negative log-likelihood of all ids except the first, each given the ids
// before it.
func (r *demoRig) nll(ids []int32) (sum float64) {
	rows := make([]int32, demoChunk)
	for i := range rows {
		rows[i] = int32(i)
	}
	for from := 0; from+1 < len(ids); from += demoChunk {
		chunk := ids[from:min(from+demoChunk, len(ids)-1)]
		logits := r.step(chunk, from, rows[:len(chunk)])
		for i := range chunk {
			row := logits[i*r.VocabSize() : (i+1)*r.VocabSize()]
			best := slices.Max(row)
			total := 0.0
			for _, x := range row {
				total += math.Exp(float64(x - best))
			}
			sum += math.Log(total) + float64(best-row[ids[from+i+1]])
		}
	}
	return sum
}

// loss returns the summed negative log-likelihood of texts for this model and for the reference.
func (r *demoRig) loss(texts []demoText) (got, want float64) {
	for _, c := range texts {
		got += r.nll(c.IDs)
		want += c.NLL
	}
	return got, want
}

func readJSON[T any](t *testing.T, name string) (v T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "demo", name))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

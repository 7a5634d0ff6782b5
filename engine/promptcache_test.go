package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/promptfile"
)

// savePrompt computes a prompt and saves it to a file.
func savePrompt(t *testing.T, e *engine.Engine, prompt []int32, path string) {
	t.Helper()
	run(t, e, engine.Request{Prompt: prompt, NoAnswer: true}, 0)
	if _, err := e.SavePrompt(context.Background(), path, false, prompt,
		engine.PromptCache{Continues: promptfile.ContinuesText}); err != nil {
		t.Fatal(err)
	}
}

func loadPrompt(e *engine.Engine, path string) error {
	f, err := promptfile.Open(path)
	if err != nil {
		return engine.PromptFileProblem(err, path)
	}
	defer f.Close()
	return e.LoadPrompt(context.Background(), f, path)
}

func randomTokens(seed uint64, n int) (ids []int32) {
	r := rand.New(rand.NewPCG(seed, 5))
	for range n {
		ids = append(ids, r.Int32N(200))
	}
	return ids
}

// testPromptFile saves prompts of several lengths, loads each into a new engine, and continues it.
// The log-probabilities must be those of an engine that has computed the whole prompt.
func testPromptFile(t *testing.T, src engine.Source, o engine.Options, lengths ...int) {
	t.Helper()
	o.PromptCaches = true
	cold := o
	cold.NoPrefixCache = true
	saver, reference := openModel(t, src, o), openModel(t, src, cold)
	dir := t.TempDir()
	for _, n := range lengths {
		prompt := randomTokens(uint64(n), n)
		path := filepath.Join(dir, fmt.Sprint(n))
		savePrompt(t, saver, prompt, path)
		next := engine.Request{Prompt: slices.Concat(prompt, randomTokens(9, 20)), MaxTokens: 12,
			IgnoreEOS: true}
		want := run(t, reference, next, 0)
		loader := openModel(t, src, o)
		for range 2 { // the second time it is in memory
			if err := loadPrompt(loader, path); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second prompt shares the pages of the first
			got := run(t, loader, next, 0)
			if !slices.Equal(got.logprobs, want.logprobs) {
				t.Errorf("%d tokens: the log-probabilities are not those of a computed prompt", n)
			}
			if cached := got.done.Usage.CachedTokens; cached < n {
				t.Errorf("%d of %d tokens came from the file", cached, n)
			}
		}
		idle(t, loader)
		loader.Close()
	}
}

// TestPromptFiles continues a prompt from a file for every kind of cache: full attention in every
// format, rings, recurrent states, Mamba2 and latents.
func TestPromptFiles(t *testing.T) {
	o := engine.Options{ContextTokens: 1200, MaxSequences: 2, ChunkTokens: 128}
	testPromptFile(t, tinySource(t, "qwen3"), o, 1, 31, 64, 256, 300, 700)
	for _, c := range []struct {
		model  string
		change func(o *engine.Options)
	}{
		{"qwen3", func(o *engine.Options) { o.KVFormat = "f16" }},
		{"llama", func(o *engine.Options) { o.KVFormat = "q4_0" }},
		{"qwen3", func(o *engine.Options) { o.KVFormat = "q8_0" }},
		{"qwen3", func(o *engine.Options) { o.KVBits = "(6, 3)" }},
		{"qwen3", func(o *engine.Options) { o.KVFormat = "f32" }},
		{"qwen3", func(o *engine.Options) { o.KVStartTokens = 512 }},
		{"qwen3", func(o *engine.Options) { o.MaxKVTokens = 64 }},
		{"gemma3_text", func(*engine.Options) {}},
		{"gpt_oss", func(o *engine.Options) { o.KVFormat = "f16" }},
		{"qwen3_next", func(*engine.Options) {}},
		{"qwen3_next", func(o *engine.Options) { o.StateFormat = "int8" }},
		{"qwen3_5_text", func(o *engine.Options) { o.Speculate = engine.SpeculateAuto }},
		{"nemotron_h", func(*engine.Options) {}},
		{"falcon_h1", func(o *engine.Options) { o.StateFormat = "bf16" }},
		{"granitemoehybrid", func(*engine.Options) {}},
		{"lfm2", func(*engine.Options) {}},
		{"deepseek_v3", func(*engine.Options) {}},
		{"glm4_moe_lite", func(o *engine.Options) { o.KVFormat = "q8_0" }},
	} {
		o := o
		c.change(&o)
		t.Run(fmt.Sprintf("%s_%s%s%s_%d_%d_%s", c.model, o.KVFormat, o.KVBits, o.StateFormat,
			o.KVStartTokens, o.MaxKVTokens, o.Speculate), func(t *testing.T) {
			lengths := []int{700}
			if os.Getenv("HEADROOM_LONG") != "" {
				lengths = []int{1, 40, 256, 530, 1024}
			}
			testPromptFile(t, tinySource(t, c.model), o, lengths...)
		})
	}
	if os.Getenv("HEADROOM_LONG") == "" {
		return
	}
	models, err := os.ReadDir(filepath.Join("models", "testdata", "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		t.Run(m.Name(), func(t *testing.T) { testPromptFile(t, tinySource(t, m.Name()), o, 600) })
	}
}

// TestPromptFileRefused: a prompt cache of other weights, another format or other arithmetic is
// refused, and the error says which.
func TestPromptFileRefused(t *testing.T) {
	o := engine.Options{ContextTokens: 600, MaxSequences: 2, ChunkTokens: 128, PromptCaches: true,
		ModelName: "org/one"}
	src := tinySource(t, "qwen3")
	path := filepath.Join(t.TempDir(), "prompt")
	prompt := randomTokens(1, 300)
	savePrompt(t, openModel(t, src, o), prompt, path)
	for name, c := range map[string]struct {
		src    engine.Source
		change func(o *engine.Options)
		want   string
	}{
		"other weights": {tinySource(t, "llama"),
			func(o *engine.Options) { o.ModelName = "org/two" },
			"it was computed by org/one with the weights"},
		"another format": {src, func(o *engine.Options) { o.KVFormat = "q8_0" },
			"and the model is loaded with q8_0"},
		"other activations": {src, func(o *engine.Options) { o.Float32Activations = true },
			"it was computed on cpu with 8-bit activations"},
		"a window": {src, func(o *engine.Options) { o.MaxKVTokens = 64 },
			"it has other layers, windows or arithmetic"},
		"no prefix cache": {src, func(o *engine.Options) { o.NoPrefixCache = true },
			"the prefix cache is off"},
		"no room": {src, func(o *engine.Options) { o.ContextTokens, o.MaxSequences = 64, 1 },
			"does not fit in memory"},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			c.change(&o)
			e := openModel(t, c.src, o)
			err := loadPrompt(e, path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, expected %q", err, c.want)
			}
			idle(t, e)
		})
	}
	e := openModel(t, src, o)
	if _, err := e.SavePrompt(context.Background(), path+"2", false, prompt,
		engine.PromptCache{Continues: promptfile.ContinuesText}); err == nil ||
		!strings.Contains(err.Error(), "could not be kept in memory") {
		t.Errorf("a prompt that was not computed: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("there is more than the saved file: %q", left)
	}
}

// TestPromptFileDamaged: a file that is cut or has a changed bit is refused, unless the bit is in a
// state that is not needed, and the answer has the right bits.
func TestPromptFileDamaged(t *testing.T) {
	o := engine.Options{ContextTokens: 600, MaxSequences: 2, ChunkTokens: 128, PromptCaches: true}
	for _, model := range []string{"qwen3", "qwen3_next"} {
		src := tinySource(t, model)
		e := openModel(t, src, o)
		dir := t.TempDir()
		path := filepath.Join(dir, "prompt")
		prompt := randomTokens(1, 300)
		savePrompt(t, e, prompt, path)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		next := engine.Request{Prompt: append(slices.Clone(prompt), 7), MaxTokens: 2}
		want := run(t, e, next, 0)
		loader := openModel(t, src, o)
		for i, n := 0, len(good); i < 200; i++ {
			bad := slices.Clone(good)
			switch at := n * i / 200; {
			case i%3 == 0:
				bad = bad[:at]
			default:
				bad[at] ^= 1 << (i % 8)
			}
			broken := filepath.Join(dir, "broken")
			if err := os.WriteFile(broken, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := loadPrompt(loader, broken); err != nil {
				if strings.Count(err.Error(), "damaged")+
					strings.Count(err.Error(), "not a prompt cache") == 0 {
					t.Errorf("%s: damage %d: %v", model, i, err)
				}
				continue
			}
			if got := run(t, loader, next, 0); model == "qwen3" || i%3 == 0 ||
				!slices.Equal(got.logprobs, want.logprobs) {
				t.Errorf("%s: damage %d was not noticed", model, i)
			}
			loader.ForgetAll()
		}
		if err := loadPrompt(loader, path); err != nil {
			t.Errorf("%s: after damaged files: %v", model, err)
		}
		idle(t, loader)
	}
}

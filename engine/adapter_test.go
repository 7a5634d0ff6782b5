package engine_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/convert"
	"headroom/engine/sample"
)

// adapterGolden is an adapter in testdata/adapters with what mlx-lm computes with it.
type adapterGolden struct {
	dir      string
	Model    string    `json:"model"`
	IDs      []int32   `json:"ids"`
	Logprobs []float64 `json:"logprobs"` // of each token of IDs after the first
	Change   float64   `json:"change"`   // the largest difference that the adapter makes
}

func (g adapterGolden) adapter() *engine.Adapter {
	return &engine.Adapter{Name: filepath.Base(g.dir), Dir: g.dir}
}

// adapterGoldens returns the adapters whose names begin with one of the given ones.
func adapterGoldens(t *testing.T, names ...string) (list []adapterGolden) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join("testdata", "adapters", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range folders {
		if !slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(filepath.Base(dir), name)
		}) {
			continue
		}
		g := adapterGolden{dir: dir}
		data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
		if err == nil {
			err = json.Unmarshal(data, &g)
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
	}
	if len(list) == 0 {
		t.Fatalf("there are no adapters %s", names)
	}
	return list
}

// worst returns the largest difference between the scores and the log-probabilities of mlx-lm.
func (g adapterGolden) worst(t *testing.T, e *engine.Engine, a *engine.Adapter) (most float64) {
	t.Helper()
	got, _, done := scores(t, submit(t, e, engine.Request{Prompt: slices.Clone(g.IDs), Adapter: a,
		ScorePrompt: true, NoAnswer: true, Sampling: sample.Params{Logprobs: 1}}))
	if done.Err != nil || len(got) != len(g.Logprobs) {
		t.Fatalf("%d scores, expected %d: %v", len(got), len(g.Logprobs), done.Err)
	}
	for i, s := range got {
		most = max(most, math.Abs(float64(s.Logprob)-g.Logprobs[i]))
	}
	return most
}

// TestAdapters compares tiny models with adapters of both formats with mlx-lm: matrices, fused
// matrices, stacks of experts, embeddings, a tied head, and DoRA, also of embeddings.
func TestAdapters(t *testing.T) {
	testAdapters(t, engine.Options{Device: engine.DeviceCPU, ContextTokens: 128,
		Float32Activations: true, KVFormat: "f32"})
}

// TestAdaptersMetal is TestAdapters on the simulated device.
func TestAdaptersMetal(t *testing.T) {
	testAdapters(t, engine.Options{Device: engine.DeviceSim, ContextTokens: 128, KVFormat: "f32"})
}

func testAdapters(t *testing.T, o engine.Options) {
	for _, g := range adapterGoldens(t, "") {
		t.Run(filepath.Base(g.dir), func(t *testing.T) {
			e := openModelOn(t, tinySource(t, g.Model), o)
			if worst := g.worst(t, e, g.adapter()); !(worst < 5e-4) {
				t.Errorf("log-probabilities differ from mlx-lm's by %g", worst)
			}
			if worst := g.worst(t, e, nil); worst < 0.01 {
				t.Errorf("without the adapter they differ by %g, expected about %g", worst,
					g.Change)
			}
		})
	}
}

// TestFuse fuses adapters. The results compute what mlx-lm does with the adapters.
func TestFuse(t *testing.T) {
	for _, g := range adapterGoldens(t, "") {
		t.Run(filepath.Base(g.dir), func(t *testing.T) {
			dest, src := filepath.Join(t.TempDir(), "fused"), tinySource(t, g.Model)
			if _, err := convert.Run(t.Context(), src, dest,
				convert.Options{Adapter: g.dir, DType: "float32"}); err != nil {
				t.Fatal(err)
			}
			e := openModel(t, engine.Source{Dir: dest}, engine.Options{Device: engine.DeviceCPU,
				ContextTokens: 128, Float32Activations: true, KVFormat: "f32"})
			if worst := g.worst(t, e, nil); !(worst < 5e-4) {
				t.Errorf("log-probabilities differ from mlx-lm's by %g", worst)
			}
		})
	}
	_, err := convert.Run(t.Context(), tinySource(t, "gemma"), filepath.Join(t.TempDir(), "x"),
		convert.Options{Adapter: filepath.Join("testdata", "adapters", "olmoe_lora")})
	if err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("got %v, expected that another model's adapter is refused", err)
	}
}

// answers returns the answer to prompt with each of the given adapters, one request after the other
// if alone is true, else all at once, and the cached tokens of each. An answer has the tokens, and
// on the CPU also their log-probabilities.
func answers(t *testing.T, e *engine.Engine, prompt []int32, of []*engine.Adapter,
	alone bool) (all []string, cached []int) {
	t.Helper()
	sampling := sample.Params{Logprobs: 1}
	if !strings.HasPrefix(e.Info().Device, "CPU") {
		sampling.Logprobs = 0 // the device samples
	}
	var streams []*engine.Stream
	finish := func() {
		for _, s := range streams {
			_, generated, done := scores(t, s)
			if done.Err != nil {
				t.Fatal(done.Err)
			}
			text := ""
			for _, g := range generated {
				text += fmt.Sprint(g.Token, " ", g.Logprob, " ")
			}
			all, cached = append(all, text), append(cached, done.Usage.CachedTokens)
		}
		streams = nil
	}
	for _, a := range of {
		streams = append(streams, submit(t, e, engine.Request{Prompt: slices.Clone(prompt),
			Adapter: a, MaxTokens: 16, IgnoreEOS: true, Sampling: sampling}))
		if alone {
			finish()
		}
	}
	finish()
	return all, cached
}

// TestAdaptersTogether runs requests with different adapters and without one in one batch. Each has
// the answer that it has alone, and no cached prefix of another adapter is used, on every device.
func TestAdaptersTogether(t *testing.T) {
	for _, c := range []struct {
		model, device string
		changes       bool // the adapters change the tokens
		adapters      []string
	}{
		{"mistral", engine.DeviceCPU, true, []string{"mistral_lora", "mistral_part",
			"mistral_peft"}},
		{"olmoe", engine.DeviceCPU, true, []string{"olmoe_lora"}},
		{"qwen3", engine.DeviceCPU, true, []string{"qwen3_dora", "qwen3_embedding",
			"qwen3_dora_embedding"}},
		{"gemma", engine.DeviceCPU, true, []string{"gemma_lora"}},
		{"mistral", engine.DeviceSim, true, []string{"mistral_part"}},
		{"qwen3", engine.DeviceSim, false, []string{"qwen3_dora"}},
		{"olmoe", engine.DeviceSim, false, []string{"olmoe_lora"}},
	} {
		t.Run(c.model+"_"+c.device, func(t *testing.T) {
			if c.device == engine.DeviceSim && c.model != "mistral" &&
				os.Getenv("HEADROOM_LONG") == "" {
				t.Skip("takes seconds; HEADROOM_LONG runs it")
			}
			src, o := tinySource(t, c.model), engine.Options{Device: c.device, ContextTokens: 256}
			of := []*engine.Adapter{nil}
			for _, g := range adapterGoldens(t, c.adapters...) {
				of = append(of, g.adapter())
			}
			of = append(of, nil)
			prompt := longPrompt(100)
			alone := openModelOn(t, src, o)
			want, cached := answers(t, alone, prompt, of, true)
			for i, n := range cached {
				seen := of[i] == nil && i > 0
				if seen != (n > 0) {
					t.Errorf("request %d resumed after %d cached tokens, expected some: %t", i, n,
						seen)
				}
			}
			for i := range want {
				if of[i] != nil && want[i] == want[0] && c.changes {
					t.Errorf("adapter %d changes nothing", i)
				}
			}
			again, cached := answers(t, alone, prompt, of, true)
			together := openModelOn(t, src, o)
			batch, _ := answers(t, together, prompt, of, false)
			for i := range want {
				if cached[i] < 64 {
					t.Errorf("request %d resumed after %d tokens, expected nearly all", i,
						cached[i])
				}
				if again[i] != want[i] || batch[i] != want[i] {
					t.Errorf("request %d:\nalone    %s\ncached   %s\ntogether %s", i, want[i],
						again[i], batch[i])
				}
			}
		})
	}
}

// openModelOn is openModel for any device; it skips the test if there is none.
func openModelOn(t *testing.T, src engine.Source, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), src, o)
	if err != nil && o.Device == engine.DeviceSim {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// longPrompt returns a prompt of n tokens.
func longPrompt(n int) []int32 {
	prompt := make([]int32, n)
	for i := range prompt {
		prompt[i] = int32(5 + i*37%300)
	}
	return prompt
}

// TestAdaptersStored writes conversations of two adapters to disk. After a restart each is read for
// its own adapter alone.
func TestAdaptersStored(t *testing.T) {
	src, dir := tinySource(t, "mistral"), t.TempDir()
	prompt := longPrompt(600)
	goldens := adapterGoldens(t, "mistral_lora", "mistral_part")
	first, second := goldens[0].adapter(), goldens[1].adapter()
	run := func(of ...*engine.Adapter) ([]string, []int) {
		store, err := engine.OpenBlockStore(dir, engine.BlockStoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		e, err := engine.Open(t.Context(), src, engine.Options{Device: engine.DeviceCPU,
			ContextTokens: 1024, BlockStore: store})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		return answers(t, e, prompt, of, true)
	}
	want, _ := run(first)
	got, cached := run(second, nil, first)
	if cached[0] != 0 || cached[1] != 0 || cached[2] < 512 {
		t.Errorf("cached tokens of another adapter, of none and of the same one: %d, expected 0, "+
			"0 and at least 512", cached)
	}
	if got[2] != want[0] {
		t.Errorf("answer %s from disk, expected %s", got[2], want[0])
	}
}

// TestManyAdapters uses more adapters than are loaded at once, by folders with the same files. A
// folder whose files change is read again.
func TestManyAdapters(t *testing.T) {
	e := openModel(t, tinySource(t, "mistral"), engine.Options{Device: engine.DeviceCPU,
		ContextTokens: 128})
	goldens := adapterGoldens(t, "mistral_lora", "mistral_part")
	prompt, last := longPrompt(20), ""
	want, _ := answers(t, e, prompt,
		[]*engine.Adapter{goldens[0].adapter(), goldens[1].adapter()}, true)
	for i := range 20 {
		last = t.TempDir()
		copyAdapter(t, last, goldens[i%2].dir)
		got, _ := answers(t, e, prompt, []*engine.Adapter{{Name: "copy", Dir: last}}, true)
		if got[0] != want[i%2] {
			t.Fatalf("adapter %d: answer %s, expected %s", i, got[0], want[i%2])
		}
	}
	copyAdapter(t, last, goldens[0].dir) // the last was a copy of the other one
	got, _ := answers(t, e, prompt, []*engine.Adapter{{Name: "copy", Dir: last}}, true)
	if got[0] != want[0] {
		t.Errorf("answer %s after the files have changed, expected %s", got[0], want[0])
	}
}

// copyAdapter replaces the adapter in dir.
func copyAdapter(t *testing.T, dir, from string) {
	t.Helper()
	for _, name := range []string{"adapters.safetensors", "adapter_config.json"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAdapterRefused names adapters that a model cannot use.
func TestAdapterRefused(t *testing.T) {
	e := openModel(t, tinySource(t, "gemma"), engine.Options{Device: engine.DeviceCPU,
		ContextTokens: 128})
	for dir, why := range map[string]string{
		filepath.Join("testdata", "adapters", "olmoe_lora"): "does not fit this model",
		filepath.Join("testdata", "adapters", "qwen3_dora"): "does not fit this model",
		filepath.Join("testdata", "adapters", "phi3_lora"):  "of shape 96 x 4 and 4 x 64",
		t.TempDir(): "has no adapter",
	} {
		_, err := e.Submit(engine.Request{Prompt: []int32{1}, Adapter: &engine.Adapter{Dir: dir}})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, expected an error with %q", dir, err, why)
		}
	}
	_, err := engine.Open(t.Context(), tinySource(t, "gemma"), engine.Options{
		Adapter: &engine.Adapter{Dir: filepath.Join("testdata", "adapters", "phi3_lora")}})
	if err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("got %v, expected that the model is refused", err)
	}
}

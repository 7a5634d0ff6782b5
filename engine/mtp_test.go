package engine_test

// The block of the demo model that drafts tokens (models.Drafter). It was trained, so nearly all of
// its drafts are right: a fault in its input, its keys and values or its hidden states would show.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/safetensors"
	"headroom/engine/sample"
)

// sameWithMTP drafts with each depth, alone and in a crowd, greedily and at random, for two turns
// of a conversation. Tokens and log-probabilities are those of plain decoding. It calls check with
// how many drafts were right.
func sameWithMTP(t *testing.T, src engine.Source, prompts [][]int32, depths []int,
	check func(depth int, right, drafts int64)) {
	t.Helper()
	o := engine.Options{MaxSequences: 3, ContextTokens: 2048}
	plain := openModel(t, src, o)
	o.Speculate = engine.SpeculateAuto
	ahead := openModel(t, src, o)
	var want plainAnswers
	for i, p := range prompts {
		s := sample.Params{Logprobs: 1}
		if i%2 == 1 {
			s = sample.Params{Logprobs: 1, Temperature: 0.7, Seed: new(uint64(i)), TopK: 20,
				RepetitionPenalty: 1.05}
		}
		r := engine.Request{Prompt: p, MaxTokens: 40, Sampling: s}
		for range 2 {
			tokens := want.add(t, plain, r)
			r.Prompt = slices.Concat(r.Prompt, tokens, prompts[(i+1)%len(prompts)])
		}
	}
	for _, depth := range depths {
		ahead.DraftDepth(depth)
		name := fmt.Sprintf("depth %d", depth)
		before := ahead.Stats()
		want.alone(t, ahead, name)
		s := ahead.Stats()
		check(depth, s.AcceptedTokens-before.AcceptedTokens, s.DraftTokens-before.DraftTokens)
		want.crowd(t, ahead, name)
	}
}

// TestMTP drafts with the demo model's block, which was trained for the first draft of a pass.
func TestMTP(t *testing.T) {
	e := open(t, engine.Options{})
	var prompts [][]int32
	for _, p := range demoCases(t, 400)[:6] {
		prompts = append(prompts, encode(e, p))
	}
	depths := []int{0, 3}
	switch {
	case testing.Short(): // under the race detector
		depths, prompts = []int{3}, prompts[:3]
	case long():
		depths = []int{0, 1, 3, 8}
	}
	sameWithMTP(t, demoSource(t), prompts, depths, func(depth int, right, drafts int64) {
		t.Logf("depth %d: %d of %d drafts were right", depth, right, drafts)
		least := map[int]float64{0: 0.7, 1: 0.85, 3: 0.35}[depth]
		if float64(right) < least*float64(drafts) || drafts == 0 {
			t.Errorf("depth %d: %d of %d drafts were right, expected %g of them", depth, right,
				drafts, least)
		}
	})
}

// mtpSource returns a random model of the shape of a tiny one, with a block that drafts.
func mtpSource(t *testing.T, name string) engine.Source {
	t.Helper()
	return mtpSourceWith(t, name, nil)
}

// mtpSourceWith is mtpSource with other keys in config.json.
func mtpSourceWith(t *testing.T, name string, keys map[string]any) engine.Source {
	t.Helper()
	data, err := fs.ReadFile(tinyTree, path.Join(name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, keys)
	config["mtp_num_hidden_layers"] = 1
	config["quantization"] = map[string]int{"bits": 4, "group_size": 32}
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // a random model that is loaded twice has other weights
	if err := engine.WriteRandom(dir, data); err != nil {
		t.Fatal(err)
	}
	return engine.Source{Dir: dir}
}

// ownBlock returns a function that returns a tiny model with a random block that drafts. It is in a
// file beside the model, except that all weights of Qwen's models are random.
func ownBlock(name string) func(t *testing.T) engine.Source {
	return func(t *testing.T) engine.Source {
		t.Helper()
		if strings.HasPrefix(name, "qwen3") {
			return mtpSource(t, name)
		}
		tiny := name
		if name == "mimo" { // which has the model of another type
			tiny = "qwen2"
		}
		src := tinySource(t, tiny)
		file := filepath.Join(src.Dir, "config.json")
		config, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.Replace(config, []byte(`"model_type": "`+tiny),
				[]byte(`"model_type": "`+name), 1), 0o600)
		}
		var block []byte
		if err == nil {
			block, err = os.ReadFile(filepath.Join("models", "testdata", "mtp", name,
				"model.safetensors"))
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(src.Dir, "mtp.safetensors"), block, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
}

// TestMTPOfRandomModels uses the other architectures that have such a block. Their drafts are
// mostly wrong.
func TestMTPOfRandomModels(t *testing.T) {
	var prompts [][]int32
	for i := range 4 {
		prompts = append(prompts, someIDs(i, 20+30*i))
	}
	names := []string{"qwen3_5_text", "qwen3_next", "deepseek_v3", "ernie4_5_moe", "glm4_moe",
		"glm4_moe_lite", "mimo", "nemotron_h"}
	if testing.Short() { // under the race detector
		names = []string{"qwen3_5_text", "deepseek_v3"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			drafted := int64(0)
			sameWithMTP(t, ownBlock(name)(t), prompts, []int{0, 2, 6},
				func(_ int, _, drafts int64) { drafted += drafts })
			if drafted < 100 {
				t.Errorf("%d drafts, expected some hundreds", drafted)
			}
		})
	}
}

// TestOwnBlockMemory: the figures count a block's weights, and what it keeps of a token: a latent
// of 64 values and a key of 32, or a key and a value of one head of 32, in float16.
func TestOwnBlockMemory(t *testing.T) {
	for name, perToken := range map[string]int64{"deepseek_v3": (64 + 32) * 2,
		"glm4_moe": 2 * 32 * 2, "nemotron_h": 2 * 32 * 2} {
		src := ownBlock(name)(t)
		describe := func(speculate string) engine.Description {
			t.Helper()
			d, err := engine.Describe(src, engine.Options{KVFormat: "f16", Speculate: speculate})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		with, without := describe(engine.SpeculateAuto), describe(engine.SpeculateOff)
		if !with.Drafts || without.Drafts {
			t.Errorf("%s: the block is loaded %t, without decoding ahead %t", name, with.Drafts,
				without.Drafts)
		}
		if got := with.KVBytesPerToken - without.KVBytesPerToken; got != perToken {
			t.Errorf("%s: the block keeps %d bytes of a token, expected %d", name, got, perToken)
		}
		// Loading copies about ten small tensors, such as norm weights, to pages of their own.
		const pages = 12 * 16384
		size := with.SizeBytes - without.SizeBytes
		weights := with.Need.WeightsBytes - without.Need.WeightsBytes
		if size <= 0 || weights < size || weights > size+pages {
			t.Errorf("%s: the block needs %d bytes for weights of %d", name, weights, size)
		}
	}
}

// TestBrokenBlock: a model whose block lacks a tensor, or is no file of tensors, is loaded without
// it. So is one without the projection by which a block is known. Each is told in a warning, in the
// description, and as the cause why an answer has no drafts.
func TestBrokenBlock(t *testing.T) {
	for _, lacks := range []string{"model.layers.2.input_layernorm.weight",
		"model.layers.2.mlp.switch_mlp.up_proj.scales", "the header",
		"model.layers.2.eh_proj.weight"} {
		src := ownBlock("glm4_moe")(t)
		c, err := safetensors.OpenDir(filepath.Join("models", "testdata", "mtp", "glm4_moe"))
		if err != nil {
			t.Fatal(err)
		}
		var tensors []safetensors.Tensor
		for _, name := range c.Names() {
			if x, _ := c.Tensor(name); name != lacks {
				tensors = append(tensors, x)
			}
		}
		var file bytes.Buffer
		if lacks == "the header" {
			file.WriteString("no tensors")
		} else if err := safetensors.Write(&file, tensors, nil); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if err := os.WriteFile(filepath.Join(src.Dir, "mtp.safetensors"), file.Bytes(),
			0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		e := openModel(t, src, engine.Options{Speculate: engine.SpeculateAuto})
		if i := e.Info(); i.Drafter != "" || i.Drafts {
			t.Errorf("without %s: the block is loaded", lacks)
		}
		if got := log.String(); strings.Count(got, "cannot be used") < 1 {
			t.Errorf("without %s: no warning", lacks)
		}
		if e.Info().BlockUnused == "" {
			t.Errorf("without %s: the description does not say it", lacks)
		}
		_, _, done := collect(t, submit(t, e,
			engine.Request{Prompt: someIDs(1, 20), MaxTokens: 8, IgnoreEOS: true}))
		if done.Usage.DraftTokens == 0 && done.NoDrafts.Cause != draft.NoBlock {
			t.Errorf("without %s: no drafts because of %s", lacks, done.NoDrafts.Cause)
		}
	}
}

// TestGivenDrafts has the block draft, and verifies other tokens in place of its drafts: some that
// are right and some that are not. Between them the engine decides.
func TestGivenDrafts(t *testing.T) {
	plain := open(t, engine.Options{})
	r := engine.Request{Prompt: encode(plain, demoCases(t, 400)[0]), MaxTokens: 60,
		IgnoreEOS: true, Sampling: sample.Params{Logprobs: 1}}
	want, logprobs, _ := answer(t, submit(t, plain, r))
	known := append(slices.Clone(r.Prompt), want...)
	passes, next := 0, 0
	ahead := open(t, engine.Options{Speculate: engine.SpeculateAuto,
		Draft: func(tokens []int32, _ bool) *engine.Drafts {
			passes++
			n := len(tokens)
			if next > 0 && n != next { // the pass before had one right draft
				t.Errorf("pass %d begins with %d tokens, expected %d", passes, n, next)
			}
			next = 0
			d := &engine.Drafts{Tokens: slices.Clone(known[n:min(n+4, len(known))]), Block: 3}
			switch {
			case passes%4 == 0:
				return nil
			case passes%2 == 0 && len(d.Tokens) > 3:
				d.Tokens[1] ^= 1
				next = n + 2
			}
			return d
		}})
	got, gotLogprobs, _ := answer(t, submit(t, ahead, r))
	if !slices.Equal(got, want) || !slices.Equal(gotLogprobs, logprobs) {
		t.Errorf("got %d, expected %d", got, want)
	}
	// Passes with 3 right drafts, 1 right draft, 3 again, and then what the engine finds.
	if s := ahead.Stats(); s.AcceptedTokens < 30 || s.AcceptedTokens >= s.DraftTokens {
		t.Errorf("%d of %d drafts were right", s.AcceptedTokens, s.DraftTokens)
	}
}

// TestBrokenMTP: a block that cannot be used does not keep the model from being loaded. Opening the
// model logs why, once, and describing it does not.
func TestBrokenMTP(t *testing.T) {
	src := tinySource(t, "qwen3_5_text")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(src.Dir)); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte("{"), []byte(`{"mtp_num_hidden_layers": 1, `), 1)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, []safetensors.Tensor{{Name: "mtp.fc.weight",
		DType: safetensors.F32, Shape: []int{3, 5}, Data: make([]byte, 60)}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model-mtp.safetensors"), file.Bytes(),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := engine.Request{Prompt: someIDs(1, 20), MaxTokens: 8, IgnoreEOS: true}
	want, _, _ := collect(t, submit(t, openModel(t, src, engine.Options{}), r))
	var log bytes.Buffer
	logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	broken, o := engine.Source{Dir: dir}, engine.Options{Speculate: engine.SpeculateAuto}
	if _, err := engine.Describe(broken, o); err != nil || log.Len() > 0 {
		t.Errorf("describing the model: %v, logged %s", err, &log)
	}
	e := openModel(t, broken, o)
	if got := log.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "cannot be used") || !strings.Contains(got, "mtp.fc") {
		t.Errorf("opening the model logged %s", got)
	}
	if got, _, _ := collect(t, submit(t, e, r)); !slices.Equal(got, want) {
		t.Errorf("got %d, expected %d", got, want)
	}
}

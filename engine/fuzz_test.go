package engine_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"

	"headroom/engine"
	"headroom/engine/problem"
)

// tinyModel is a model of one type, whose config the tests below change.
type tinyModel struct {
	name            string
	config, weights []byte
}

// readTinyModels returns the model of every registered type.
func readTinyModels(t testing.TB) (all []tinyModel) {
	t.Helper()
	for _, m := range tinyModels() {
		config, err := m.Config(tinyTree)
		if err != nil {
			t.Fatal(err)
		}
		weights := read(t, filepath.Join("models", "testdata", "tiny", m.Folder),
			"model.safetensors")
		all = append(all, tinyModel{m.Type, config, weights})
	}
	return all
}

// describe describes a model. It checks that the config is described or refused with a Problem, and
// that no more memory is allocated than the files have, apart from what every model needs.
func describe(t *testing.T, config, weights []byte) (refused bool) {
	t.Helper()
	src := engine.Source{FS: fstest.MapFS{
		"config.json":       {Data: config},
		"model.safetensors": {Data: weights},
		"tokenizer.json":    {Data: []byte("{}")},
	}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, err := engine.Describe(src, engine.Options{AvailableBytes: 8 << 30, ChunkTokens: 64})
	runtime.ReadMemStats(&after)
	// A model is loaded on paper, its layers and a batch of 64 tokens: 520 KiB for the tiny
	// muse_glimmer, and 200 to 400 KiB for the others. Each has a few layers, and a name, a shape
	// and a place for each tensor. A size in config.json that is allocated takes megabytes.
	const everyModel = 576 << 10
	if used, most := after.TotalAlloc-before.TotalAlloc,
		uint64(everyModel+len(weights)+100*len(config)); used > most {
		t.Errorf("%d bytes allocated for a config of %d and weights of %d, expected at most %d",
			used, len(config), len(weights), most)
	}
	if err != nil {
		if p := problem.From(err); p.Code == problem.Internal {
			t.Errorf("got %v, expected a Problem about the model", err)
		}
		return true
	}
	n := d.Need
	if n.WeightsBytes <= 0 || n.KVBytes < 0 || n.StateBytes < 0 || n.ScratchBytes <= 0 ||
		n.TotalBytes() <= 0 || d.ContextTokens < 1 {
		t.Errorf("description %+v, expected plausible sizes", d)
	}
	return false
}

// FuzzDescribe describes the weights of the tiny models with mutated configs.
func FuzzDescribe(f *testing.F) {
	models := readTinyModels(f)
	for i, m := range models {
		f.Add(m.config, byte(i))
	}
	for _, config := range []string{
		`{"model_type": "qwen3"}`,
		`{"model_type": "qwen3", "num_hidden_layers": 4096, "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 4194304}`,
		`{"model_type": "qwen3_5_moe", "text_config": {"num_hidden_layers": 4, "num_experts": 4194304, "num_experts_per_tok": 4194304}}`,
		`{"model_type": "qwen3", "quantization": {"bits": 4, "group_size": 64}, "rope_scaling": {"type": "linear", "factor": 1e-300}}`,
	} {
		f.Add([]byte(config), byte(2))
	}
	f.Fuzz(func(t *testing.T, config []byte, which byte) {
		describe(t, config, models[int(which)%len(models)].weights)
	})
}

// FuzzConfigKey replaces one key of the config of a type by another value, which need not be of the
// same kind.
func FuzzConfigKey(f *testing.F) {
	models := readTinyModels(f)
	f.Add(byte(0), uint16(0), []byte("null"))
	f.Add(byte(1), uint16(3), []byte("4194304"))
	f.Fuzz(func(t *testing.T, which byte, key uint16, value []byte) {
		m := models[int(which)%len(models)]
		keys := configKeys(t, m.config)
		if config, ok := withKey(m.config, keys[int(key)%len(keys)], value); ok {
			describe(t, config, m.weights)
		}
	})
}

// faultyValues are JSON values for each key of a config. "" removes the key.
var faultyValues = []string{"", "null", "-1", "0", "1", "3", "0.5", "1e-300", "1e300", "1024",
	"4096", "4097", "4194304", "4194305", "2147483648", "9223372036854775807", "1e19", `"x"`, `""`,
	"true", "false", "[]", "{}", `[1e300, "x", null]`, `{"type": "yarn", "factor": 1e-300}`,
	`{"rope_type": "llama3"}`, `["full_attention", "sliding_attention", "linear_attention"]`,
	`{"bits": 4, "group_size": 32}`, "[[[[[[[[[[]]]]]]]]]]"}

// TestFaultyConfigs gives each key of each type's config each of some faulty values. The short form
// gives each key of a type only some of them.
func TestFaultyConfigs(t *testing.T) {
	for i, m := range readTinyModels(t) {
		refused, all := 0, 0
		for k, key := range configKeys(t, m.config) {
			for v, value := range faultyValues {
				if !long() && (i+k+v)%12 != 0 {
					continue
				}
				config, ok := withKey(m.config, key, []byte(value))
				if !ok {
					t.Fatalf("%s is no JSON", value)
				}
				if all++; describe(t, config, m.weights) {
					refused++
				}
				if t.Failed() {
					t.Fatalf("%s: %v = %s", m.name, key, value)
				}
			}
		}
		if refused == 0 || refused == all {
			t.Errorf("%s: %d of %d configs were refused, expected some", m.name, refused, all)
		}
	}
}

// TestHugeConfigs gives every model huge sizes, each alone and all together, with its own tensors
// and with none. Nothing may be allocated for what the files do not have.
func TestHugeConfigs(t *testing.T) {
	none := []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}")
	huge := map[string]string{"num_hidden_layers": "4096", "head_dim": "4096"}
	for _, m := range readTinyModels(t) {
		all := m.config
		for _, key := range configKeys(t, m.config) {
			value := huge[key[len(key)-1]]
			if n, err := strconv.Atoi(string(valueAt(t, m.config, key))); err != nil || n < 1 {
				continue
			}
			if value == "" {
				value = "4194304" // the largest that is accepted
			}
			config, _ := withKey(m.config, key, []byte(value))
			all, _ = withKey(all, key, []byte(value))
			describe(t, config, m.weights)
			describeCache(t, config, 0)
			if !describe(t, config, none) {
				t.Errorf("%s: described without any tensor", m.name)
			}
			if t.Failed() {
				t.Fatalf("%s: %v = %s", m.name, key, value)
			}
		}
		describeCache(t, all, 0)
		if !describe(t, all, none) || !describe(t, all, m.weights) || t.Failed() {
			t.Fatalf("%s with every size: described, or too much allocated", m.name)
		}
	}
}

// valueAt returns the value at a path of a config.json.
func valueAt(t *testing.T, config json.RawMessage, path []string) json.RawMessage {
	t.Helper()
	for _, key := range path {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(config, &keys); err != nil {
			t.Fatal(err)
		}
		config = keys[key]
	}
	return config
}

// configKeys returns the paths of all keys of a config.json, in a fixed order. A key with an object
// is in the list, and so are the keys of the object.
func configKeys(t testing.TB, config []byte) (paths [][]string) {
	t.Helper()
	var add func(object json.RawMessage, above []string)
	add = func(object json.RawMessage, above []string) {
		var keys map[string]json.RawMessage
		if json.Unmarshal(object, &keys) != nil {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			path := append(slices.Clone(above), key)
			paths = append(paths, path)
			add(keys[key], path)
		}
	}
	add(config, nil)
	if len(paths) < 5 {
		t.Fatalf("a config has the keys %v only", paths)
	}
	return paths
}

// withKey returns a config.json with another value at a path, or without it if value is empty. ok
// is false if value is not JSON.
func withKey(config json.RawMessage, path []string, value []byte) (changed json.RawMessage,
	ok bool) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(config, &keys) != nil {
		return nil, false
	}
	switch {
	case len(path) > 1:
		if keys[path[0]], ok = withKey(keys[path[0]], path[1:], value); !ok {
			return nil, false
		}
	case len(value) == 0:
		delete(keys, path[0])
	default:
		keys[path[0]] = value
	}
	changed, err := json.Marshal(keys)
	return changed, err == nil
}

// TestRandomModels runs a random model of every benchmark shape that is small enough for a test.
func TestRandomModels(t *testing.T) {
	shapes, err := filepath.Glob(filepath.Join("..", "app", "commands", "shapes", "*.json"))
	if err != nil || len(shapes) == 0 {
		t.Fatalf("no shapes found: %v", err)
	}
	for _, shape := range shapes {
		t.Run(filepath.Base(shape), func(t *testing.T) {
			config, err := os.ReadFile(shape)
			if err != nil {
				t.Fatal(err)
			}
			o := engine.Options{ContextTokens: 64, MaxSequences: 1, ChunkTokens: 16}
			d, err := engine.Describe(engine.Random(config), o)
			if err != nil {
				t.Fatal(err)
			}
			if d.Need.TotalBytes() > 512<<20 {
				t.Skipf("needs %d MB", d.Need.TotalBytes()>>20)
			}
			e, err := engine.Open(t.Context(), engine.Random(config), o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			answersAsRandom(t, e)
		})
	}
}

// answersAsRandom checks that the tokenizer of a random model is reversible, and that the model
// generates tokens.
func answersAsRandom(t *testing.T, e *engine.Engine) {
	t.Helper()
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	latin := make([]rune, 0, 2048)
	for r := range rune(0x800) { // their UTF-8 has every byte below 0xe0 that is valid in UTF-8
		latin = append(latin, r)
	}
	for _, text := range []string{string(all[:128]), string(latin), "日本語 🙂\r\n"} {
		if ids := encode(e, text); e.Tokenizer().Decode(ids, false) != text ||
			len(ids) != len(text) {
			t.Errorf("%.20q...: its %d tokens do not decode to the same text", text, len(ids))
		}
	}
	tokens, _, done := collect(t,
		submit(t, e, engine.Request{Prompt: encode(e, "Hello"), MaxTokens: 3, IgnoreEOS: true}))
	if len(tokens) != 3 || done.Finish != engine.FinishLength {
		t.Errorf("%d tokens (%s, %v), expected 3 (length)", len(tokens), done.Finish, done.Err)
	}
}

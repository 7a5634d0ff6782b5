package engine_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"

	"headroom/engine"
	"headroom/engine/problem"
)

// FuzzDescribe describes the weights of the tiny models with mutated configs. Every config must be
// described or refused with a Problem, and must not allocate much memory.
func FuzzDescribe(f *testing.F) {
	var weights [][]byte
	for i, m := range tinyModels() {
		config, err := m.Config(tinyTree)
		if err != nil {
			f.Fatal(err)
		}
		weights = append(weights, read(f, filepath.Join("models", "testdata", "tiny", m.Folder),
			"model.safetensors"))
		f.Add(config, byte(i))
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
		src := engine.Source{FS: fstest.MapFS{
			"config.json":       {Data: config},
			"model.safetensors": {Data: weights[int(which)%len(weights)]},
		}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := engine.Describe(src, engine.Options{AvailableBytes: 8 << 30, ChunkTokens: 64})
		runtime.ReadMemStats(&after)
		if used, most := after.TotalAlloc-before.TotalAlloc,
			uint64(8<<20+200*len(config)); used > most {
			t.Errorf("%d bytes allocated for a config of %d, expected at most %d", used,
				len(config), most)
		}
		if err != nil {
			if p := problem.From(err); p.Code == problem.Internal {
				t.Errorf("got %v, expected a Problem about the model", err)
			}
			return
		}
		n := d.Need
		if n.WeightsBytes <= 0 || n.KVBytes < 0 || n.StateBytes < 0 || n.ScratchBytes <= 0 ||
			n.TotalBytes() <= 0 || d.ContextTokens < 1 {
			t.Errorf("description %+v, expected plausible sizes", d)
		}
	})
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

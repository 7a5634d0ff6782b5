package engine_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine"
)

// ofVocabulary returns a random model whose tokens are the bytes, the first size of them.
func ofVocabulary(size int) engine.Source {
	return engine.Random(fmt.Appendf(nil, `{"model_type": "qwen3", "hidden_size": 128,
		"vocab_size": %d, "intermediate_size": 128, "num_hidden_layers": 2,
		"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
		"max_position_embeddings": 4096, "eos_token_id": 253,
		"quantization": {"bits": 4, "group_size": 64}}`, size))
}

// TestDraftModelVocabulary: a draft model may lack one token in a hundred of the large model's, but
// none that ends an answer. A model that lacks more would never draft. It is refused, or, if it is
// not required, the log and Info say why it is not used.
func TestDraftModelVocabulary(t *testing.T) {
	const large = 256
	for size, refused := range map[int]string{
		large: "", large + 64: "", large - 2: "",
		large - 3: "token 253, \"\\xfd\", ends the answers of the large model",
		large / 2: "its vocabulary",
	} {
		o := engine.Options{ContextTokens: 512, MaxSequences: 1, Speculate: engine.SpeculateAuto,
			DraftModel: &engine.DraftModel{Source: ofVocabulary(size), Name: "small",
				Required: true}}
		e, err := engine.Open(t.Context(), ofVocabulary(large), o)
		if err == nil {
			i := e.Info()
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if i.Drafter != engine.SpeculateDraft || i.DraftModel != "small" ||
				i.DraftModelUnused != "" {
				t.Errorf("%d tokens: %+v", size, i)
			}
		}
		if (err == nil) != (refused == "") || err != nil &&
			(!strings.Contains(err.Error(), refused) ||
				!strings.Contains(err.Error(), "The draft model cannot be used")) {
			t.Errorf("%d tokens: got %v, expected %q", size, err, refused)
		}
		if refused == "" {
			continue
		}
		var log bytes.Buffer
		logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		o.DraftModel.Required = false
		i := openModel(t, ofVocabulary(large), o).Info()
		if i.Drafter != "" || i.DraftModel != "" ||
			!strings.Contains(i.DraftModelUnused, refused) {
			t.Errorf("%d tokens: %+v", size, i)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, "the draft model is not used") {
			t.Errorf("%d tokens: opening the model logged %s", size, got)
		}
		target, err := engine.NewDraftTarget(ofVocabulary(large))
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Fits(ofVocabulary(size)); err == nil {
			t.Errorf("%d tokens: offered as a draft model", size)
		}
	}
}

// TestOneRemedy: a draft model whose files cannot be read is refused with one remedy: to choose
// another. To download it again would be another one.
func TestOneRemedy(t *testing.T) {
	small := tinySource(t, "qwen3")
	file := filepath.Join(small.Dir, "tokenizer.json")
	if err := os.WriteFile(file, []byte(`{"model": {"type": "Unknown"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := engine.Open(t.Context(), tinySource(t, "qwen3"), engine.Options{
		ContextTokens: 512, Speculate: engine.SpeculateAuto,
		DraftModel: &engine.DraftModel{Source: small, Required: true}})
	if err == nil || !strings.Contains(err.Error(), "tokenizer.json cannot be used") ||
		!strings.Contains(err.Error(), "Choose a smaller model") ||
		strings.Contains(err.Error(), "again") {
		t.Errorf("got %v, expected one remedy", err)
	}
}

// TestDraftModelUnused: Info says why a draft model does not draft, whatever the reason, and names
// both models if they do not fit together. What is asked for and cannot draft is in the log.
func TestDraftModelUnused(t *testing.T) {
	hybrid, qwen3 := tinySource(t, "qwen3_5_text"), tinySource(t, "qwen3")
	foreign := dflashSource(t, map[string]any{"hidden_size": 128})
	for _, c := range []struct {
		name       string
		src        engine.Source
		small      engine.Source // none: no draft model
		how        string
		info, logs string // expected
	}{
		{"another DFlash drafter", hybrid, foreign, engine.SpeculateAuto,
			foreign.Dir + " does not fit " + hybrid.Dir, "the draft model is not used"},
		{"for another number of layers", qwen3, dflashSource(t, nil), engine.SpeculateAuto,
			" does not fit " + qwen3.Dir, "the draft model is not used"},
		{"off", qwen3, qwen3, engine.SpeculateOff, "the way to decode ahead is off", ""},
		{"a model for mtp", qwen3, qwen3, engine.SpeculateMTP, "it is not the folder of a block",
			"the draft model is not used"},
		{"mtp without a block", qwen3, engine.Source{}, engine.SpeculateMTP, "",
			"the model has no block that drafts"},
		{"draft without a model", qwen3, engine.Source{}, engine.SpeculateDraft, "",
			"no draft model is named"},
		{"dflash without a drafter", qwen3, engine.Source{}, engine.SpeculateDFlash, "",
			"no DFlash drafter is named"},
		{"auto", qwen3, engine.Source{}, engine.SpeculateAuto, "", ""},
		{"vectors", engine.Source{Dir: vectorModels + "/modernbert"}, engine.Source{},
			engine.SpeculateMTP, "", "the model generates no text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			logTo(t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			o := engine.Options{ContextTokens: 512, MaxSequences: 1, Speculate: c.how}
			if c.small.Dir != "" {
				o.DraftModel = &engine.DraftModel{Source: c.small, Name: "small"}
			}
			i := openModel(t, c.src, o).Info()
			if i.Drafter != "" || i.DraftModel != "" || (i.DraftModelUnused == "") !=
				(c.info == "") || !strings.Contains(i.DraftModelUnused, c.info) {
				t.Errorf("drafter %q, draft model %q, unused %q, expected %q", i.Drafter,
					i.DraftModel, i.DraftModelUnused, c.info)
			}
			lines := 0
			if c.logs != "" {
				lines = 1
			}
			if got := log.String(); strings.Count(got, "\n") != lines ||
				!strings.Contains(got, c.logs) {
				t.Errorf("opening the model logged %q, expected %q", got, c.logs)
			}
		})
	}
}

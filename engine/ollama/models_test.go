package ollama

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// listed are models that are not loaded, but for the first one.
type listed []server.ModelInfo

func (l listed) Acquire(string) (server.Model, error) {
	return server.Model{}, problem.New(problem.NotRunning, "no", "", "")
}
func (l listed) Wake(context.Context, string) (server.Model, error) { return l.Acquire("") }
func (l listed) List() []server.ModelInfo                           { return l }
func (l listed) Listed() bool                                       { return true }

// Texts has a model with each template, and one without.
func (l listed) Texts(name string) (string, generate.Model, error) {
	source, ok := map[string]string{"org/thinks": "<think>{{ messages }}",
		"plain": "{{ messages }}", "none": ""}[strings.TrimSuffix(name, latest)]
	if !ok {
		return "", nil, problem.New(problem.ModelNotFound, "no "+name, "", "")
	}
	template, _ := chat.ParseTemplate(source)
	return strings.TrimSuffix(name, latest), texts{template}, nil
}

type texts struct{ template *chat.Template }

func (texts) Tokenizer() *tokenizer.Tokenizer { return nil }
func (t texts) Template() *chat.Template      { return t.template }

var models = listed{
	{ID: "org/thinks", State: server.Loaded, ContextTokens: 4096, MemoryBytes: 7,
		UnloadAt:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		UpdatedAt: time.Date(2025, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)),
		Description: engine.Description{Architecture: "qwen3", Quantization: "4-bit, group 64",
			SizeBytes: 5, Parameters: 8_190_000_000}},
	{ID: "plain", State: server.Unloaded},
}

// TestLists: what clients read of the lists.
func TestLists(t *testing.T) {
	document, _ := listModels(nil, models)
	compare(t, document, `{"models":[{"name":"org/thinks:latest","model":"org/thinks:latest",
		"modified_at":"2024-12-31T23:00:00Z","size":5,"digest":"`+digest(models[0])+`",
		"details":{"parent_model":"","format":"safetensors","family":"qwen3","families":["qwen3"],
			"parameter_size":"8.2B","quantization_level":"4-bit, group 64"}},
		{"name":"plain:latest","model":"plain:latest","modified_at":"1970-01-01T00:00:00Z",
		"size":0,"digest":"`+digest(models[1])+`","details":{"parent_model":"",
			"format":"safetensors","family":"","families":[""],"parameter_size":"",
			"quantization_level":""}}]}`)
	document, _ = listLoaded(nil, models)
	compare(t, document, `{"models":[{"name":"org/thinks:latest","model":"org/thinks:latest",
		"size":7,"digest":"`+digest(models[0])+`","details":{"parent_model":"",
			"format":"safetensors","family":"qwen3","families":["qwen3"],"parameter_size":"8.2B",
			"quantization_level":"4-bit, group 64"},
		"expires_at":"2026-01-02T03:04:05Z","size_vram":7,"context_length":4096}]}`)
	empty, _ := listLoaded(nil, listed{})
	compare(t, empty, `{"models":[]}`)
	pinned := models[0]
	pinned.UnloadAt = time.Time{}
	document, _ = listLoaded(nil, listed{pinned})
	if at := document.(ModelList).Models[0].ExpiresAt; time.Until(*at) < 1000*24*time.Hour {
		t.Errorf("a pinned model expires at %v", at)
	}
	changed := models[0]
	changed.UpdatedAt = changed.UpdatedAt.Add(1)
	if digest(changed) == digest(models[0]) || len(digest(changed)) != 64 {
		t.Error("the digest does not change with the files")
	}
}

// TestShow: what clients read of a model.
func TestShow(t *testing.T) {
	const thinks = `{"modelfile":"FROM org/thinks\n","parameters":"num_ctx 4096","details":{
		"parent_model":"","format":"safetensors","family":"qwen3","families":["qwen3"],
		"parameter_size":"8.2B","quantization_level":"4-bit, group 64"},"model_info":{
		"general.architecture":"qwen3","general.basename":"thinks",
		"general.parameter_count":8190000000,"qwen3.context_length":4096},
		"capabilities":["completion","tools","thinking"],"modified_at":"2024-12-31T23:00:00Z"}`
	const unknown = `"details":{"parent_model":"","format":"safetensors","family":"",
		"families":[""],"parameter_size":"","quantization_level":""},"model_info":{
		"general.basename":`
	for body, want := range map[string]string{
		`{"model":"org/thinks:latest","verbose":true}`: thinks,
		`{"name":"org/thinks"}`:                        thinks,
		`{"model":"plain"}`: `{"modelfile":"FROM plain\n","parameters":"",` + unknown + `"plain"},
			"capabilities":["completion","tools"],"modified_at":"1970-01-01T00:00:00Z"}`,
		`{"model":"none"}`: `{"modelfile":"FROM none\n","parameters":"",` + unknown + `"none"},
			"capabilities":["completion"],"modified_at":"1970-01-01T00:00:00Z"}`,
	} {
		document, err := showModel(t.Context(), []byte(body), server.Resources{Models: models})
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		compare(t, document, want)
	}
	for body, want := range map[string]string{
		`{"model":"x"}`: "no x", `{}`: "model: is missing", `[]`: "must be a JSON object",
		`{"model":5}`: "model: expected a string, got a number",
		`{"model":"` + strings.Repeat("m", 1025) + `"}`: "model: at most 1024 bytes",
	} {
		_, err := showModel(t.Context(), []byte(body), server.Resources{Models: models})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", body, err, want)
		}
	}
}

// TestNames: what a client sees of IDs and of numbers of parameters.
func TestNames(t *testing.T) {
	for id, want := range map[string]string{"a": "a:latest", "o/a": "o/a:latest",
		"o/a:4b": "o/a:4b", "C:/a": "C:/a:latest"} {
		if got := nameOf(id); got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
	for n, want := range map[int64]string{0: "", 9_400: "9K", 596_049_920: "596M",
		8_190_735_360: "8.2B", 235_093_634_560: "235.1B"} {
		if got := parameterSize(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// compare compares a document with JSON in another layout.
func compare(t *testing.T, document any, want string) {
	t.Helper()
	var compact strings.Builder
	inText := false
	for _, r := range want {
		if r == '"' {
			inText = !inText
		}
		if inText || !strings.ContainsRune("\n\t ", r) {
			compact.WriteRune(r)
		}
	}
	if got, err := json.Marshal(document); err != nil || string(got) != compact.String() {
		t.Errorf("got  %s, %v\nwant %s", got, err, compact.String())
	}
}

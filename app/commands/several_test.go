package commands

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"headroom/app/host"
)

// TestSeveralModels: requests load the models that they name, each in a process of its own, beside
// the one that the server was started with. All answer at once, with the texts that they generate
// alone.
func TestSeveralModels(t *testing.T) {
	isolate(t)
	root := t.TempDir()
	names := []string{"llama", "qwen3"}
	for _, name := range names {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		tinyModel(t, name, dir)
	}
	s := startServer(t, "--models-dir", root, "--context", "512")
	names = append(names, "headroom-demo")
	generate := func(name string) string {
		prompt := `[5,6,7,8,9,10,11,12]` // tokens that the tiny models have
		if name == "headroom-demo" {
			prompt = `"Once upon a time"`
		}
		status, text, _ := s.ask("POST", "/v1/completions", fmt.Sprintf(
			`{"model":%q,"prompt":%s,"max_tokens":24,"temperature":0}`, name, prompt))
		var answer struct {
			Model   string
			Choices []struct{ Text string }
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 ||
			answer.Model != name || len(answer.Choices) != 1 || answer.Choices[0].Text == "" {
			t.Errorf("%s: %d %s", name, status, text)
			return ""
		}
		return answer.Choices[0].Text
	}
	alone := map[string]string{}
	for _, name := range names {
		alone[name] = generate(name)
		s.ask("POST", "/control/engine/stop", fmt.Sprintf(`{"model":%q}`, name))
	}
	var requests sync.WaitGroup
	for range 4 {
		for _, name := range names {
			requests.Go(func() {
				if got := generate(name); got != alone[name] {
					t.Errorf("%s together: %q, alone %q", name, got, alone[name])
				}
			})
		}
	}
	requests.Wait()
	_, text, _ := s.ask("GET", "/control/state", "")
	var state host.State
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	for _, e := range state.Engines {
		if e.Status != host.Ready && e.Status != host.Busy || e.MemoryBytes == 0 {
			t.Errorf("%+v", e)
		}
	}
	if len(state.Engines) != len(names) {
		t.Errorf("%d models are loaded, want %d: %+v", len(state.Engines), len(names),
			state.Engines)
	}
	_, text, _ = s.ask("GET", "/v1/models", "")
	if n := strings.Count(text, `"state":"loaded"`); n != len(names) {
		t.Errorf("%d models are loaded in %s", n, text)
	}
	if status, text, _ := s.ask("POST", "/v1/completions",
		`{"model":"unknown","prompt":[5]}`); status != 404 {
		t.Errorf("an unknown model: %d %s", status, text)
	}
}

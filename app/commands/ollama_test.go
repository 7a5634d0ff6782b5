package commands

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestOllama is a session of a client of Ollama: it downloads a model, finds it in the list, asks
// it, and unloads it.
func TestOllama(t *testing.T) {
	isolate(t)
	t.Setenv("HF_ENDPOINT", demoHub(t, nil))
	s := startServer(t, "--ollama-port")
	if log := s.log.Bytes(); !bytes.Contains(log, []byte("Ollama's clients ")) {
		t.Errorf("nothing about Ollama's port: %s", log) // it may be taken
	}
	ask := func(method, path, body string, want ...string) {
		t.Helper()
		status, text, _ := s.ask(method, path, body)
		for _, part := range want {
			if status != 200 || !strings.Contains(text, part) {
				t.Errorf("%s %s: got %d %s, want %s", method, path, status, text, part)
			}
		}
	}
	const named = `{"model":"demo/model:latest"`
	ask("POST", "/api/pull", named+`}`, `{"status":"success"}`+"\n")
	ask("POST", "/api/pull", named+`}`, `{"status":"success"}`+"\n") // it is here
	ask("GET", "/api/tags", "", `"name":"demo/model:latest"`, `"parameter_size":"20M"`,
		`"name":"headroom-demo:latest"`)
	ask("POST", "/api/show", named+`}`, `"capabilities":["completion","tools","thinking"]`,
		`"qwen3_5_moe.context_length":`)
	const few = `,"think":false,"options":{"num_predict":3,"temperature":0}`
	ask("POST", "/api/chat", named+few+`,"keep_alive":"9m",
		"messages":[{"role":"user","content":"hi"}]}`, `"done":false}`,
		`"done_reason":"length"`, `"eval_count":3`)
	ask("GET", "/api/ps", "", `"name":"demo/model:latest"`, `"expires_at":"2`)
	ask("POST", "/api/generate", named+`,"keep_alive":0}`, `"done_reason":"unload"`)
	_, loaded, _ := s.ask("GET", "/api/ps", "")
	var list struct{ Models []struct{ Name string } }
	if err := json.Unmarshal([]byte(loaded), &list); err != nil || len(list.Models) != 1 ||
		list.Models[0].Name != "headroom-demo:latest" {
		t.Errorf("after unloading: %s", loaded)
	}
	status, text, _ := s.ask("POST", "/api/pull", `{"model":"llama3.2"}`)
	if status != 400 || !strings.HasPrefix(text, `{"error":"\"llama3.2\" is not the name of a`) {
		t.Errorf("a name of Ollama's registry: %d %s", status, text)
	}
}

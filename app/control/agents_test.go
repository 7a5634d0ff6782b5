package control

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/agents"
	"headroom/app/keys"
)

// TestAgentsOverHTTP shows, writes and undoes the configuration of an agent, with a key, because
// the endpoint needs one.
func TestAgentsOverHTTP(t *testing.T) {
	w := newGeneral(t)
	if _, _, err := w.keys.Add("laptop", keys.Limits{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.home, ".codex/config.toml")
	const before = "# mine\nmodel = \"gpt\"\n"
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	send := func(method, path, body string, want int, document any) string {
		t.Helper()
		status, _, text := do(t, method, w.url+"/control/agents"+path, body, TokenHeader, "T")
		if status != want {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		if document != nil {
			if err := json.Unmarshal([]byte(text), document); err != nil {
				t.Fatal(err)
			}
		}
		return text
	}
	var list AgentList
	send("GET", "", "", 200, &list)
	if got := list.Target; got.Model != "o/m" || got.URL != "http://127.0.0.1:11811/v1" ||
		!got.NeedsKey || got.ContextTokens == 0 || len(list.Agents) < 6 {
		t.Errorf("the list is %+v", list)
	}
	var plan AgentPlan
	send("GET", "/codex?model=o/m", "", 200, &plan)
	if plan.NewKey != "Codex" || plan.Path != "~/.codex/config.toml" || plan.Command == "" ||
		len(plan.Lines) == 0 {
		t.Errorf("the plan is %+v", plan)
	}
	body := `{"model":"o/m","token":"` + plan.Token + `"}`
	send("POST", "/codex", strings.Replace(body, plan.Token, "x", 1), http.StatusConflict, nil)
	send("POST", "/codex", strings.Replace(body, "token", "tokn", 1), http.StatusBadRequest, nil)
	send("POST", "/codex", body, 200, nil)
	if data, _ := os.ReadFile(file); !strings.Contains(string(data), "127.0.0.1:11811") ||
		!strings.Contains(string(data), "# mine") || len(w.keys.List()) != 2 {
		t.Errorf("written: %s", data)
	}
	send("GET", "", "", 200, &list)
	if l := list.Agents[1]; l.State != agents.Current || !l.CanUndo || l.KeyName != "Codex" {
		t.Errorf("after writing: %+v", l)
	}
	var undo agents.Plan
	send("GET", "/codex/undo", "", 200, &undo)
	send("POST", "/codex/undo", `{"token":"`+undo.Token+`"}`, 200, nil)
	if data, _ := os.ReadFile(file); string(data) != before || len(w.keys.List()) != 1 {
		t.Errorf("after undo: %s", data)
	}
	send("GET", "/codx", "", http.StatusNotFound, nil)
	send("POST", "/codex/launch", `{"folder":"relative"}`, http.StatusBadRequest, nil)
}

package commands

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/app/service"
	"headroom/app/settings"
)

// TestAliases: the commands know a model by the aliases of the settings, as requests do.
func TestAliases(t *testing.T) {
	isolate(t)
	configure(t, map[string]settings.Model{"headroom-demo": {Aliases: []string{"gpt-4o"}}})
	for _, name := range []string{"gpt-4o", "GPT-4O"} {
		if code, _, errOut := headroom("", "run", "--model", name, "--max-tokens", "3",
			question); code != 0 {
			t.Errorf("run: exit %d, %s", code, errOut)
		}
	}
	if _, err := resolveBench("gpt-4o"); err != nil {
		t.Errorf("bench: %v", err)
	}
	if code, _, errOut := headroom("", "parity", "gpt-4o", "--tokens", "2",
		"--max-sequences", "1"); strings.Contains(errOut, "no model") || code == 2 {
		t.Errorf("parity: exit %d, %s", code, errOut)
	}
	if code, _, errOut := headroom("", "run", "--model", "gpt-5", question); code == 0 ||
		!strings.Contains(errOut, `no model "gpt-5"`) || !strings.Contains(errOut, "gpt-4o") {
		t.Errorf("an unknown name: exit %d, %s", code, errOut)
	}
	s := startServer(t, "--model", "gpt-4o")
	if _, text, _ := s.ask("GET", "/control/state", ""); !strings.Contains(text,
		`"model":"headroom-demo"`) {
		t.Errorf("serve loaded: %s", text)
	}
}

// TestSettingsOfCopies: two folders have the same model, and the settings say something about both.
// The aliases of both name it. The list and the log say which other settings have no effect.
func TestSettingsOfCopies(t *testing.T) {
	isolate(t)
	root := t.TempDir()
	for _, name := range []string{"first", "second"} {
		demoFolder(t, filepath.Join(root, name))
	}
	configure(t, map[string]settings.Model{"first": {Aliases: []string{"one"}},
		"second": {Aliases: []string{"two"}, ContextTokens: 256}})
	const ignored = "settings of second have no effect"
	if _, out, _ := headroom("", "models", "--models-dir", root); !strings.Contains(out, ignored) ||
		strings.Count(out, "no effect") != 1 {
		t.Errorf("models printed %s", out)
	}
	s := startServer(t, "--models-dir", root, "--model", "two")
	_, list, _ := s.ask("GET", "/v1/models", "")
	for _, want := range []string{`"id":"one"`, `"id":"two"`, `"id":"first"`} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s: %s", want, list)
		}
	}
	for _, name := range []string{"one", "two"} {
		if status, text, _ := s.ask("POST", "/v1/completions",
			`{"model":"`+name+`","prompt":"a","max_tokens":1}`); status != 200 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if !strings.Contains(string(s.log.Bytes()), "settings of a copy of this model have no effect") {
		t.Errorf("the log is %s", s.log.Bytes())
	}
}

// TestAliasWithoutEffect: an alias that is the ID of another model means that model, and the list
// and the log of a server say so.
func TestAliasWithoutEffect(t *testing.T) {
	isolate(t)
	root := t.TempDir()
	demoFolder(t, filepath.Join(root, "org", "first"))
	configure(t, map[string]settings.Model{"headroom-demo": {Aliases: []string{"First"}}})
	const says = `"First" of headroom-demo means org/first, whose name it is`
	if _, out, _ := headroom("", "models", "--models-dir", root); !strings.Contains(out, says) {
		t.Errorf("models printed %s", out)
	}
	s := startServer(t, "--models-dir", root, "--model", "headroom-demo")
	for _, path := range []string{"first", "org/First:latest", "FIRST"} {
		if status, text, _ := s.ask("GET", "/v1/models/"+path, ""); status != 200 ||
			!strings.Contains(text, `"id":"org/first"`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for logged := false; !logged; time.Sleep(10 * time.Millisecond) {
		logged = strings.Contains(string(s.log.Bytes()), "means org/first")
	}
}

// configure writes the settings of models.
func configure(t *testing.T, models map[string]settings.Model) {
	t.Helper()
	err := service.OpenSettings().Change(func(s *settings.Settings) { s.Models = models })
	if err != nil {
		t.Fatal(err)
	}
}

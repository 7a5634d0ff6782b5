package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/keys"
)

var target = Target{URL: "http://127.0.0.1:11811/v1", Model: "mlx-community/Qwen3.5-9B-4bit",
	ContextTokens: 32768}

// keyed is a target that needs a key.
func keyed() Target { t := target; t.NeedsKey = true; return t }

// place is a home folder with a store.
type place struct {
	t     *testing.T
	home  string
	store *Store
	keys  *keys.Store
}

func newPlace(t *testing.T) *place {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(home, ".config/headroom")
	k, err := keys.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return &place{t, home, New(settings, Environment{Home: home, System: "linux"}, k), k}
}

func (p *place) path(name string) string { return filepath.Join(p.home, name) }

func (p *place) put(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// read returns the text of a file, "(none)" if it does not exist.
func (p *place) read(name string) string {
	data, err := os.ReadFile(p.path(name))
	if os.IsNotExist(err) {
		return "(none)"
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// write plans and writes.
func (p *place) write(id string, t Target) Plan {
	p.t.Helper()
	plan, err := p.store.Plan(id, t)
	if err != nil {
		p.t.Fatalf("planning %s: %v", id, err)
	}
	done, err := p.store.Write(id, t, plan.Token)
	if err != nil {
		p.t.Fatalf("writing %s: %v", id, err)
	}
	return done
}

func (p *place) undo(id string) Plan {
	p.t.Helper()
	plan, err := p.store.UndoPlan(id)
	if err != nil {
		p.t.Fatalf("planning the undo of %s: %v", id, err)
	}
	if _, err := p.store.Undo(id, plan.Token); err != nil {
		p.t.Fatalf("undoing %s: %v", id, err)
	}
	return plan
}

func (p *place) state(id string, t Target) State {
	p.t.Helper()
	for _, l := range p.store.List(t) {
		if l.ID == id {
			return l.State
		}
	}
	p.t.Fatalf("%s is not listed", id)
	return ""
}

func wants(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

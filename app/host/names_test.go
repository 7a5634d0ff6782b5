package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// TestNames: an ID comes before an alias. A request without a name gets the model that a person
// started, or the default model.
func TestNames(t *testing.T) {
	m := newMachine(t, 10, 10, 0)
	m.set(func() {
		m.rules.Aliases = func(id string) []string {
			return map[string][]string{"a": {"mini"}, "b": {"gpt", "A", "GPT", "both"},
				"headroom-demo": {"Both", "own"}}[id]
		}
		m.rules.DefaultModel = "b"
	})
	listed := map[string]string{"a": "mini", "b": "gpt", "headroom-demo": "Both own"}
	for _, one := range m.List() {
		if got := strings.Join(one.Aliases, " "); got != listed[one.ID] {
			t.Errorf("the aliases of %s are listed as %q, want %q", one.ID, got, listed[one.ID])
		}
	}
	if id, err := m.Resolve("both"); err != nil || id != "headroom-demo" {
		t.Errorf("the model that is listed with an alias of two models: %q, %v", id, err)
	}
	for name, want := range map[string]string{"": "b", "GPT": "b", "a": "a"} {
		loaded := len(m.State().Engines)
		if id, err := m.Resolve(name); err != nil || id != want ||
			len(m.State().Engines) != loaded {
			t.Errorf("Resolve(%q): %q, %v; want %s, and nothing loaded", name, id, err, want)
		}
		got, err := m.Wake(t.Context(), name)
		if err != nil || got.ID != want {
			t.Fatalf("%q: %q, %v; want %s", name, got.ID, err, want)
		}
		got.Release(nil)
	}
	m.begin("a")
	if got, err := m.Wake(t.Context(), ""); err != nil || got.ID != "a" {
		t.Errorf("after a person has started another model: %q, %v", got.ID, err)
	}
	m.Stop()
	m.set(func() { m.rules.DefaultModel = "" })
	if _, err := m.Wake(t.Context(), ""); problem.From(err).Code != problem.NotRunning {
		t.Errorf("without a default model: %v", err)
	}
	for name, want := range map[string]problem.Code{"": problem.NotRunning,
		"x": problem.ModelNotFound} {
		if id, err := m.Resolve(name); id != "" || problem.From(err).Code != want {
			t.Errorf("Resolve(%q): %q, %v; want %s", name, id, err, want)
		}
	}
}

// TestNameMeansOneModel: a name means the same model in the list and in requests, whatever is
// loaded and in front. If requests load no models, those in memory share a name.
func TestNameMeansOneModel(t *testing.T) {
	m := newMachine(t, 10, 10, 0)
	m.set(func() {
		m.rules.Aliases = func(id string) []string {
			return map[string][]string{"a": {"both", "B", "b:latest"}, "b": {"Both", "mine"}}[id]
		}
	})
	expect := func(both string) {
		t.Helper()
		for name, want := range map[string]string{"b": "b", "B": "b", "b:latest": "b", "x/B": "b",
			"both": both, "BOTH:latest": both, "openai/both": both, "mine": "b"} {
			if id, err := m.Resolve(name); err != nil || id != want {
				t.Errorf("Resolve(%q): %q, %v; want %s", name, id, err, want)
			}
		}
		for _, one := range m.List() {
			for _, alias := range one.Aliases {
				if id, _ := m.Resolve(alias); id != one.ID {
					t.Errorf("%s is listed for %s and means %s", alias, one.ID, id)
				}
			}
			if got := strings.Join(one.Aliases, " "); one.ID == "b" && got != "mine" &&
				both == "a" {
				t.Errorf("the aliases of b are listed as %q", got)
			}
		}
	}
	expect("a")
	m.begin("b")
	expect("a")
	m.begin("a")
	expect("a")
	m.set(func() { m.rules.Load = false })
	expect("a")
	if err := m.StopModel("a"); err != nil {
		t.Fatal(err)
	}
	expect("b")
}

// TestAliasesWithoutEffect: an alias that is another model's name gets a line in the log when the
// models are known, another one when the settings change, and none while nothing changes.
func TestAliasesWithoutEffect(t *testing.T) {
	var out strings.Builder
	aliases := []string{"B", "mine"}
	h := newTestHostWith(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&out, nil))
		o.Watch = &library.WatchOptions{Quiet: time.Millisecond, Paused: true}
		o.Requests = func() RequestRules {
			return RequestRules{Load: true, Aliases: func(id string) []string {
				return map[string][]string{"a": aliases}[id]
			}}
		}
	})
	h.Close() // no sampler reads the aliases from here on
	for _, more := range []string{"", "", "headroom-demo", ""} {
		if more != "" {
			aliases = append(aliases, more)
		}
		h.noteAliases()
	}
	for _, want := range []string{`\"B\" of a means b, whose name it is`,
		`\"headroom-demo\" of a means headroom-demo`} {
		if strings.Count(out.String(), want) != 1 || strings.Count(out.String(), "WARN") != 2 {
			t.Errorf("not one line with %s:\n%s", want, out.String())
		}
	}
}

// TestNamesOfAdapters: a plus sign and the name of an adapter after any name of its model, or after
// nothing. No path names one.
func TestNamesOfAdapters(t *testing.T) {
	models := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(models, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("org/a/config.json", "x")
	write("org/a/model.safetensors", "x")
	write("mine/style/adapter_config.json",
		`{"model": "org/a", "lora_parameters": {"scale": 1}}`)
	write("mine/style/adapters.safetensors", "x")
	describe := func(src engine.Source, o engine.Options) (engine.Description, error) {
		if strings.Contains(src.Dir, "mine") {
			return engine.Describe(src, o)
		}
		return engine.Description{}, nil
	}
	list := library.New([]string{models}, engine.Options{}, describe).Scan()
	m := newMachine(t, 10, 10, 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	rules := RequestRules{Load: true,
		Aliases: func(id string) []string {
			return map[string][]string{"org/a": {"alias"}}[id]
		}}
	dir := filepath.Join(models, "mine", "style")
	for name, want := range map[string]string{"org/a+style": "style", "a+STYLE": "style",
		"alias+style": "style", "org/a": "", "a+other": "error", "a+" + dir: "error",
		"a+../style": "error", "b+style": "error", "+": "error", "a+": "error"} {
		_, found, a, err := m.asked(name, list, rules)
		got := ""
		switch {
		case err != nil:
			got = "error"
		case a != nil:
			got = a.Name
		}
		if got != want || err == nil && found.ID != "org/a" || a != nil && a.Dir != dir {
			t.Errorf("%q: %q, %+v, %v; want %q", name, found.ID, a, err, want)
		}
	}
	all := addAdapters([]server.ModelInfo{{ID: "headroom-demo"}, {ID: "org/a"}}, list)
	if len(all) != 3 || all[2].ID != "org/a+style" || all[2].Base != "org/a" {
		t.Errorf("the list is %+v", all)
	}
}

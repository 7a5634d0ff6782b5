package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/library"
	"headroom/engine"
)

// TestAdapterOfTheFirstModel: the adapter of the options is for the model that is started first, in
// every load of it, and for no other.
func TestAdapterOfTheFirstModel(t *testing.T) {
	m := newMachine(t, 10, 10, 0)
	m.options.Adapter = &engine.Adapter{Name: "style", Dir: "/style"}
	loadedWith := func(model, want string) {
		t.Helper()
		m.request(model)()
		m.mu.Lock()
		defer m.mu.Unlock()
		got := ""
		if a := m.loaded[model].o.Adapter; a != nil {
			got = a.Name
		}
		if got != want {
			t.Errorf("%s is loaded with the adapter %q, want %q", model, got, want)
		}
	}
	m.start("a")
	loadedWith("a", "style")
	loadedWith("b", "")
	m.start("b")
	loadedWith("b", "")
	m.Stop()
	loadedWith("a", "style")
}

// TestStartWithAdapter: a person may name an adapter after the model. Another adapter loads the
// model again, the same one does not.
func TestStartWithAdapter(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.Library = library.New(o.Library.Roots(), engine.Options{},
			func(src engine.Source, o engine.Options) (engine.Description, error) {
				if strings.Contains(src.Dir, "mine") {
					return engine.Describe(src, o)
				}
				return engine.Description{}, nil
			})
	})
	for _, name := range []string{"style", "other"} {
		dir := filepath.Join(h.root, "mine", name)
		for file, text := range map[string]string{"adapters.safetensors": "x",
			"adapter_config.json": `{"model": "a", "lora_parameters": {"scale": 1}}`} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct{ name, want string }{{"a+style", "style"}, {"a+other", "other"}} {
		h.start(c.name)
		e := h.loading("a")
		e.finish <- nil
		if err := h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e.o.Adapter == nil || e.o.Adapter.Name != c.want {
			t.Errorf("%s is loaded with %v", c.name, e.o.Adapter)
		}
	}
	h.start("a+other")
	h.start("a")
	if len(h.opened) != 0 {
		t.Error("the model is loaded again with the adapter that it has")
	}
	for name, want := range map[string]string{"a+none": "its adapters are ", "none+style": "none+",
		"b+style": "has no adapter"} {
		if err := h.Start(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// TestRemove: clients delete models by their IDs, from Headroom's folders alone, and only while the
// settings allow it. Everything else is refused and stays.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	own, hub, theirs := filepath.Join(dir, "own"), filepath.Join(dir, "hub"),
		filepath.Join(dir, "theirs")
	for _, d := range []string{filepath.Join(own, "o", "m"), filepath.Join(theirs, "o", "m"), hub} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(theirs, "o"), filepath.Join(own, "linked")); err != nil {
		t.Fatal(err)
	}
	at := func(id, path string) host.Model {
		return host.Model{ID: id, Places: []host.Place{{ID: id, Path: path,
			Origin: library.Folder}}}
	}
	copies := at("o/copies", filepath.Join(own, "o", "m"))
	copies.Places = append(copies.Places, at("", filepath.Join(hub, "m")).Places...)
	models := []host.Model{
		{ID: "demo", Bundled: true},
		at("o/m", filepath.Join(own, "o", "m")),
		at("o/tag:latest", filepath.Join(own, "o", "m")),
		at("o/hub", filepath.Join(hub, "models--o--hub")),
		at("o/theirs", filepath.Join(theirs, "o", "m")),
		at("o/linked", filepath.Join(own, "linked", "m")),
		at("o/itself", own),
		at("o/coming", filepath.Join(hub, "models--o--coming")),
		copies,
		{ID: "q:1", Places: []host.Place{{ID: "q:1", Path: theirs, Origin: library.Ollama}}},
	}
	for _, c := range []struct {
		name    string
		off     bool
		trashed string
		code    problem.Code
		says    string
	}{
		{"o/m", false, "o/m", "", ""},
		{"o/m:latest", false, "o/m", "", ""},
		{"o/tag:latest", false, "o/tag:latest", "", ""},
		{"o/hub", false, "o/hub", "", ""},
		{"q:1", false, "q:1", "", ""}, // the library refuses it
		{"demo", false, "demo", "", ""},
		{"o/m", true, "", problem.Forbidden, "off in the settings"},
		{"none", true, "", problem.Forbidden, "off in the settings"},
		{"m", false, "", problem.ModelNotFound, "only its ID"},
		{"O/M", false, "", problem.ModelNotFound, "only its ID"},
		{"o/tag", false, "", problem.ModelNotFound, "only its ID"},
		{"", false, "", problem.ModelNotFound, "only its ID"},
		{":latest", false, "", problem.ModelNotFound, "only its ID"},
		{"o/theirs", false, "", problem.Forbidden, "neither downloaded nor imported"},
		{"o/linked", false, "", problem.Forbidden, "neither downloaded nor imported"},
		{"o/itself", false, "", problem.Forbidden, "neither downloaded nor imported"},
		{"o/copies", false, "", problem.BadRequest, "several folders"},
		{"o/coming", false, "", problem.BadRequest, "being downloaded"},
	} {
		var trashed []string
		r := &remover{allowed: func() bool { return !c.off },
			models:  func() []host.Model { return models },
			folders: func() []string { return []string{own, hub} },
			jobs: func() []jobs.Job {
				return []jobs.Job{{Kind: jobs.Download, Title: "o/coming", State: jobs.Running},
					{Kind: jobs.Download, Title: "o/hub", State: jobs.Done}}
			},
			trash: func(id, path string) error {
				trashed = append(trashed, id)
				if id != "demo" && path == "" {
					t.Errorf("%q: no folder", id)
				}
				return nil
			}}
		err := r.remove(c.name)
		if c.code == "" {
			if err != nil || !slices.Equal(trashed, []string{c.trashed}) {
				t.Errorf("%q: %v, trashed %q", c.name, err, trashed)
			}
			continue
		}
		if err == nil || problem.From(err).Code != c.code || len(trashed) > 0 ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v, want %s: %s; trashed %q", c.name, err, c.code, c.says, trashed)
		}
	}
}

// TestRemoveOverHTTP: a client's request moves a model from Headroom's folder to the Trash once the
// settings allow it, and leaves one in a folder that the user has named.
func TestRemoveOverHTTP(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("it would use the Finder's Trash")
	}
	file := home(t)
	theirs := t.TempDir()
	plantTiny(t, "llama", filepath.Join(library.Own(), "o", "mine"))
	plantTiny(t, "qwen3", filepath.Join(theirs, "o", "theirs"))
	options := engine.Options{Device: engine.DeviceCPU, Threads: 1}
	s, err := New(Options{Listen: "127.0.0.1", Settings: file,
		NewHost: func(*settings.File) *host.Host {
			return host.New(host.Options{
				Library: library.New([]string{library.Own(), theirs}, options, engine.Describe),
				Engine:  func(string) engine.Options { return options },
				Meter: memory.NewMeter(func([]int) (memory.Reading, error) {
					return memory.Reading{TotalBytes: 1 << 40, AvailableBytes: 1 << 40}, nil
				})})
		},
		NewMover: func(*host.Host, *settings.File) (*cache.Mover, error) {
			return nil, errors.New("not in this test")
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	defer func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
	}()
	for _, c := range []struct {
		on     bool
		name   string
		status int
		says   string
	}{
		{false, "o/mine", 403, "Let apps delete models"},
		{true, "o/theirs", 403, "neither downloaded nor imported"},
		{true, "o/none", 404, "No model has the ID"},
		{true, "headroom-demo", 400, "cannot be removed"},
		{true, "o/mine:latest", 200, "success"},
		{true, "o/mine", 404, "No model has the ID"},
	} {
		err := file.Change(func(s *settings.Settings) { s.OllamaDelete = c.on })
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete,
			"http://"+s.Address+"/api/delete", strings.NewReader(`{"model":"`+c.name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(w.Body)
		_ = w.Body.Close()
		if w.StatusCode != c.status || !strings.Contains(string(text), c.says) {
			t.Errorf("%s: %d %s, want %d %s", c.name, w.StatusCode, text, c.status, c.says)
		}
	}
	_, left := os.Stat(filepath.Join(library.Own(), "o", "mine"))
	_, kept := os.Stat(filepath.Join(theirs, "o", "theirs", "config.json"))
	_, trashed := os.Stat(filepath.Join(os.Getenv("XDG_DATA_HOME"), "Trash", "files", "mine",
		"config.json"))
	if !os.IsNotExist(left) || kept != nil || trashed != nil {
		t.Errorf("in its folder: %v, the other one: %v, in the Trash: %v", left, kept, trashed)
	}
}

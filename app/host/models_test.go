package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// newWatchingHost returns a host that watches its model folder.
func newWatchingHost(t *testing.T) *testHost {
	return newTestHostWith(t, func(o *Options) {
		o.Watch = &library.WatchOptions{Quiet: time.Millisecond}
		o.RememberPause = func(paused bool) error {
			return os.WriteFile(filepath.Join(o.Library.Roots()[0], "paused"),
				fmt.Append(nil, paused), 0o600)
		}
	})
}

func (h *testHost) writeFile(path, text string) {
	h.t.Helper()
	path = filepath.Join(h.root, path)
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// TestDownloadedModel: a downloading model is listed but cannot be started. When it is complete,
// the change is announced and the model can be started.
func TestDownloadedModel(t *testing.T) {
	h := newWatchingHost(t)
	changed, done := h.Subscribe()
	defer done()
	seen := 0
	expect := func(want string) {
		t.Helper()
		for deadline := time.After(timeout); ; {
			changes, now := h.ModelChanges(seen)
			for _, c := range changes {
				if seen++; fmt.Sprint(c.Kind, " ", c.ID, " ", c.State) == want {
					return
				}
			}
			if seen != now {
				t.Fatalf("%d changes were returned, but the last has number %d", seen, now)
			}
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("no change %q", want)
			}
		}
	}
	h.Models(0) // the first list does not count as a change
	h.writeFile("new/model.safetensors.part", "12345")
	expect("appeared new downloading")
	h.writeFile("new/config.json", "new")
	if err := h.Start("new"); err == nil || !strings.Contains(err.Error(), "not complete yet") {
		t.Errorf("starting a downloading model: %v", err)
	}
	if err := os.Rename(filepath.Join(h.root, "new/model.safetensors.part"),
		filepath.Join(h.root, "new/model.safetensors")); err != nil {
		t.Fatal(err)
	}
	expect("finished new ready")
	h.run("new")
	if err := h.RemoveModel("new", ""); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("removing the running model: %v", err)
	}
	h.Stop()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	if err := h.RemoveModel("new", ""); err != nil {
		t.Error(err)
	}
	expect("vanished new ready")
}

// TestRemoveFailedModel: a model that could not be loaded is not in use, so it can be removed.
func TestRemoveFailedModel(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	h := newWatchingHost(t)
	h.start("a")
	e := h.loading("a")
	if err := h.RemoveModel("a", ""); err == nil {
		t.Error("a model that is being loaded is removed")
	}
	e.finish <- problem.New(problem.ModelBroken, "It is damaged", "", "")
	if err := h.Wait(t.Context()); err == nil {
		t.Fatal("it is loaded")
	}
	if err := h.RemoveModel("a", ""); err != nil {
		t.Error(err)
	}
	h.expect(Stopped, "")
	if _, err := h.Acquire("a"); problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("a request for it: %v", err)
	}
}

// TestVanishedModel: a model whose folder is gone is not listed, and a request for it is told that
// there is no such model: once the list is current, or else when loading fails.
func TestVanishedModel(t *testing.T) {
	for _, watched := range []bool{true, false} {
		h := newTestHostWith(t, func(o *Options) {
			o.Watch = &library.WatchOptions{Quiet: time.Millisecond, Paused: !watched}
			o.Requests = func() RequestRules { return RequestRules{Load: true} }
		})
		answered := make(chan error, 1)
		wake := func() {
			got, err := h.Wake(t.Context(), "a")
			if err == nil {
				got.Release(new(time.Duration(0)))
			}
			answered <- err
		}
		go wake()
		e := h.loading("a")
		e.finish <- nil
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		<-e.closed
		listed := func() bool {
			return slices.ContainsFunc(h.List(),
				func(m server.ModelInfo) bool { return m.ID == "a" })
		}
		if !listed() {
			t.Fatal("an unloaded model is not listed")
		}
		to := filepath.Join(t.TempDir(), "a")
		if err := os.Rename(filepath.Join(h.root, "a"), to); err != nil {
			t.Fatal(err)
		}
		for watched && listed() {
			time.Sleep(time.Millisecond)
		}
		go wake()
		if !watched {
			h.loading("a").finish <- problem.New(problem.ModelNotFound, "It is not there", "", "")
		}
		if err := <-answered; problem.From(err).Code != problem.ModelNotFound {
			t.Errorf("watched %t: %v", watched, err)
		}
		for listed() { // until the folders are scanned
			time.Sleep(time.Millisecond)
		}
		if _, err := h.Acquire("a"); problem.From(err).Code != problem.ModelNotFound {
			t.Errorf("watched %t: later: %v", watched, err)
		}
	}
}

// TestIncompleteModel: a request for a model whose files are not all there is told that there is
// none.
func TestIncompleteModel(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.Requests = func() RequestRules { return RequestRules{Load: true} }
	})
	h.writeFile("new/model.safetensors.part", "12345")
	h.RescanModels()
	if _, err := h.Wake(t.Context(), "new"); problem.From(err).Code != problem.ModelNotFound ||
		!strings.Contains(err.Error(), "not complete yet") {
		t.Errorf("a request: %v", err)
	}
}

func TestPauseWatching(t *testing.T) {
	h := newWatchingHost(t)
	if err := h.PauseWatching(true); err != nil {
		t.Fatal(err)
	}
	if l := h.Models(0); !l.Watch.Paused || l.Watch.On || len(l.Folders) != 1 {
		t.Errorf("%+v", l.Watch)
	}
	if text, _ := os.ReadFile(filepath.Join(h.root, "paused")); string(text) != "true" {
		t.Errorf("RememberPause stored %q", text)
	}
	h.writeFile("new/config.json", "new")
	h.RescanModels()
	if l := h.Models(0); !strings.Contains(fmt.Sprint(l.Models), "{new new") {
		t.Errorf("after a scan: %v", l.Models)
	}
	if err := newTestHost(t).PauseWatching(true); err == nil {
		t.Error("PauseWatching succeeded on a host that does not watch folders")
	}
}

// TestNeedBytes: the need includes the keys and values of one conversation. The conversation has
// as many tokens as the argument says, but no more than the model's maximum context.
func TestNeedBytes(t *testing.T) {
	d := engine.Description{ContextTokens: 1024, KVBytesPerToken: 1,
		Need: engine.Need{WeightsBytes: 1, KVBytes: 77, StateBytes: 2, ScratchBytes: 3}}
	for tokens, want := range map[int]int64{0: 1030, 100: 134, 1024: 1030, 5000: 1030} {
		if got := needOf(d, nil, 5000, tokens).TotalBytes(); got != want {
			t.Errorf("%d tokens need %d, want %d", tokens, got, want)
		}
	}
	m := library.Model{ID: "m", State: library.Ready, Description: d}
	for tokens, want := range map[int]memory.Fit{64: memory.Yes, 1000: memory.No} {
		if got := modelView(m, nil, 500, tokens).Fits; got != want {
			t.Errorf("%d tokens in 500 bytes: %s, want %s", tokens, got, want)
		}
	}
	// With a drafter it needs 100 more. Where that does not fit, the model is loaded without.
	plain := d
	d.Plain, d.Need.WeightsBytes = &plain, 101
	for room, want := range map[int64]int64{5000: 1130, 1130: 1130, 1129: 1030} {
		if got := needOf(d, nil, room, 1024).TotalBytes(); got != want {
			t.Errorf("in %d bytes it needs %d, want %d", room, got, want)
		}
	}
}

// TestModelTask: an embedding model is listed as one.
func TestModelTask(t *testing.T) {
	for _, task := range []modelfile.Task{modelfile.Generate, modelfile.Embed, modelfile.Rerank} {
		m := library.Model{ID: "m", Description: engine.Description{Task: task}}
		if got := modelView(m, nil, 0, 0).Task; got != task {
			t.Errorf("the task of a model for %q is %q", task, got)
		}
	}
}

// TestModelChanges: a reader that missed some changes gets them all. A reader that missed more than
// maxOldChanges gets the last ones.
func TestModelChanges(t *testing.T) {
	var l modelList
	change := func(i int) library.Change {
		return library.Change{Kind: library.Appeared, Model: library.Model{ID: fmt.Sprint(i)}}
	}
	for i := range 150 {
		l.note([]library.Change{change(2 * i), change(2*i + 1)})
	}
	for after, want := range map[int]int{300: 0, 299: 1, 290: 10, 0: maxOldChanges, 1000: 0} {
		got, last := l.changesAfter(after)
		if len(got) != want || last != 300 || want > 0 && got[want-1].ID != "299" {
			t.Errorf("after %d: %d changes, want %d", after, len(got), want)
		}
	}
}

// TestTaskOfAName: it is known what a model is for that is not loaded, unless it is broken.
func TestTaskOfAName(t *testing.T) {
	var h server.TaskModels = newTestHost(t)
	for name, want := range map[string]bool{"a": true, "openai/A": true, "broken": false,
		"none": false} {
		id, task, known := h.Task(name)
		if known != want || known && (id != "a" || task != modelfile.Generate) {
			t.Errorf("%s: %q, %q, %t", name, id, task, known)
		}
	}
}

package host

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"headroom/app/cache"
	"headroom/app/jobs"
	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
)

// mover returns a Mover of the world's cache. It stores the new folder in kept instead of in
// settings.
func (w *world) mover(kept *atomic.Value, copies bool) *cache.Mover {
	return &cache.Mover{AlwaysCopy: copies, Rest: w.WithCacheClosed,
		Now: func() (string, engine.BlockStoreLimits) {
			return w.State().Cache.Dir, engine.BlockStoreLimits{MinFreeBytes: -1}
		},
		Keep: func(dir string) error { kept.Store(dir); return nil }}
}

// found returns how many of the tokens the open cache holds.
func found(w *world, m engine.StoredModel, tokens []int32) int {
	return w.cache.store().Model(m).Find(tokens, len(tokens), 0, false).Tokens
}

// TestMoveCache moves the cache while a model is loaded. The move waits for running requests, the
// model is loaded again with the moved cache, and stored prefixes are found in it.
func TestMoveCache(t *testing.T) {
	for name, copies := range map[string]bool{"links": false, "copies": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "old"), filepath.Join(dir, "new")
			w := withCache(t, from)
			a := w.run("a")
			a.stored = engine.StoredModel{Name: "a", Fingerprint: "f", Format: "K8 V4 #12"}
			tokens := make([]int32, 300)
			stored(t, w, a.stored, tokens)
			before := w.State().Cache
			a.mu.Lock()
			a.stats = engine.Stats{Running: 1}
			a.mu.Unlock()

			var kept atomic.Value
			list := jobs.NewList()
			defer list.Close()
			m := w.mover(&kept, copies)
			job := list.Start(m.Job(to))
			if w.schedule(func() {}) {
				t.Fatal("a model that answers is unloaded")
			}
			a.mu.Lock()
			a.stats = engine.Stats{}
			a.mu.Unlock()
			again := w.loading("a") // behind the move: the cache is the new one
			if got, err := list.Wait(t.Context(), job.ID); err != nil || got.State != jobs.Done ||
				got.Err != nil {
				t.Fatalf("%+v, %v", got, err)
			}
			again.finish <- nil
			if err := w.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if kept.Load() != to || again.o.BlockStore == nil ||
				again.o.BlockStore == a.o.BlockStore || again.o.BlockStore != w.cache.store() {
				t.Errorf("the settings name %v, and the model has the store %p, which was %p",
					kept.Load(), again.o.BlockStore, a.o.BlockStore)
			}
			if got := found(w, a.stored, tokens); got != len(tokens) {
				t.Errorf("%d tokens are found in the new folder, want %d", got, len(tokens))
			}
			if c := w.State().Cache; !c.On || c.Dir != to || c.Bytes != before.Bytes &&
				before.Bytes != 0 || c.Error != "" {
				t.Errorf("cache %+v, before %+v", c, before)
			}
			if _, err := os.Stat(from); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the old folder is still there: %v", err)
			}
		})
	}
}

// TestMoveCacheFails: after any failed move, the cache is in its old folder and the model uses it.
func TestMoveCacheFails(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	w := withCache(t, from)
	model := engine.StoredModel{Name: "a", Fingerprint: "f", Format: "K8 V4 #12"}
	tokens := make([]int32, 300)
	stored(t, w, model, tokens)
	var kept atomic.Value
	list := jobs.NewList()
	defer list.Close()
	as := func(what string) {
		t.Helper()
		if got := found(w, model, tokens); got != len(tokens) || w.State().Cache.Dir != from {
			t.Errorf("%s: %d tokens are found in %s", what, got, w.State().Cache.Dir)
		}
	}

	m := w.mover(&kept, true)
	m.Keep = func(string) error { return errors.New("no settings") }
	job, err := list.Wait(t.Context(), list.Start(m.Job(to)).ID)
	if err != nil || job.State != jobs.Failed || problem.From(job.Err).Why != "no settings" {
		t.Errorf("settings that cannot be kept: %+v, %v", job, err)
	}
	as("settings that cannot be kept")

	visitor, err := blockstore.Open(from, blockstore.Options{Visit: true})
	if err != nil {
		t.Fatal(err)
	}
	job, err = list.Wait(t.Context(), list.Start(w.mover(&kept, true).Job(to)).ID)
	if err != nil || job.State != jobs.Failed ||
		problem.From(job.Err).Message != "Another program has the cache open" {
		t.Errorf("another program: %+v, %v", job, err)
	}
	as("another program")
	if err := visitor.Close(); err != nil {
		t.Fatal(err)
	}

	a := w.run("a") // which never comes to an end
	a.mu.Lock()
	a.stats = engine.Stats{Waiting: 1}
	a.mu.Unlock()
	id := list.Start(w.mover(&kept, true).Job(to)).ID
	if err := list.Stop(id); err != nil {
		t.Fatal(err)
	}
	if job, err = list.Wait(t.Context(), id); err != nil || job.State != jobs.Stopped {
		t.Errorf("stopped: %+v, %v", job, err)
	}
	as("stopped")
	if err := list.Remove(id); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a move that was given up left its folder: %v", err)
	}
	if kept.Load() != nil {
		t.Errorf("the settings name %v", kept.Load())
	}
	as("at the end")

	for name, dir := range map[string]string{"itself": from, "inside": filepath.Join(from, "x"),
		"not absolute": "x", "nowhere": "/nowhere/at/all/ever"} {
		if _, err := w.mover(&kept,
			false).Check(dir); problem.From(err).Code != problem.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMoveCacheAndStop: a start or stop during a move takes effect; the last one wins.
func TestMoveCacheAndStop(t *testing.T) {
	dir := t.TempDir()
	w := withCache(t, filepath.Join(dir, "old"))
	w.run("a")
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- w.WithCacheClosed(t.Context(), func() (string, error) {
			close(begun)
			<-end
			return filepath.Join(dir, "other"), nil
		})
	}()
	<-begun
	if s := w.cache.store(); s != nil {
		t.Error("a cache at rest is lent")
	}
	if _, err := w.Conversations(); problem.From(err).Code != problem.Loading {
		t.Errorf("asked for at rest: %v", err)
	}
	if c := w.State().Cache; !c.On || c.Dir != filepath.Join(dir, "old") {
		t.Errorf("shown at rest: %+v", c)
	}
	w.start("b")
	close(end)
	b := w.loading("b")
	b.finish <- nil
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(Ready, "b")
}

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

// mover returns a Mover of the host's cache. It stores the new folder in saved instead of in the
// settings.
func (h *testHost) mover(saved *atomic.Value, copies bool) *cache.Mover {
	return &cache.Mover{AlwaysCopy: copies, WithClosed: h.WithCacheClosed,
		Current: func() (string, engine.BlockStoreLimits) {
			return h.State().Cache.Dir, engine.BlockStoreLimits{MinFreeBytes: -1}
		},
		Save: func(dir string) error { saved.Store(dir); return nil }}
}

// foundTokens returns how many of the tokens the open cache holds.
func foundTokens(h *testHost, m engine.StoredModel, tokens []int32) int {
	return h.cache.store().Model(m).Find(tokens, len(tokens), 0, false).Tokens
}

// TestMoveCache moves the cache while a model is loaded. The move waits for running requests, the
// model is loaded again with the moved cache, and stored prefixes are found in it.
func TestMoveCache(t *testing.T) {
	for name, copies := range map[string]bool{"link": false, "copy": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "old"), filepath.Join(dir, "new")
			h := withCache(t, from)
			a := h.run("a")
			a.stored = engine.StoredModel{Name: "a", Fingerprint: "f", Format: "K8 V4 #12"}
			tokens := make([]int32, 300)
			store(t, h, a.stored, tokens)
			before := h.State().Cache
			a.mu.Lock()
			a.stats = engine.Stats{Running: 1}
			a.mu.Unlock()

			var saved atomic.Value
			list := jobs.NewList()
			defer list.Close()
			m := h.mover(&saved, copies)
			job := list.Start(m.Job(to))
			if h.schedule(func() {}) {
				t.Fatal("a busy model is unloaded")
			}
			a.mu.Lock()
			a.stats = engine.Stats{}
			a.mu.Unlock()
			again := h.loading("a") // after the move, with the new cache
			if got, err := list.Wait(t.Context(), job.ID); err != nil || got.State != jobs.Done ||
				got.Err != nil {
				t.Fatalf("%+v, %v", got, err)
			}
			again.finish <- nil
			if err := h.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if saved.Load() != to || again.o.BlockStore == nil ||
				again.o.BlockStore == a.o.BlockStore || again.o.BlockStore != h.cache.store() {
				t.Errorf("the settings name %v; the model had the store %p and now has %p",
					saved.Load(), a.o.BlockStore, again.o.BlockStore)
			}
			if got := foundTokens(h, a.stored, tokens); got != len(tokens) {
				t.Errorf("%d tokens are found in the new folder, want %d", got, len(tokens))
			}
			if c := h.State().Cache; !c.On || c.Dir != to || c.Bytes != before.Bytes &&
				before.Bytes != 0 || c.Error != "" {
				t.Errorf("cache %+v, before %+v", c, before)
			}
			if _, err := os.Stat(from); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the old folder is still there: %v", err)
			}
		})
	}
}

// TestMoveCacheFails: after any failed move, the cache is open in its old folder.
func TestMoveCacheFails(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	h := withCache(t, from)
	model := engine.StoredModel{Name: "a", Fingerprint: "f", Format: "K8 V4 #12"}
	tokens := make([]int32, 300)
	store(t, h, model, tokens)
	var saved atomic.Value
	list := jobs.NewList()
	defer list.Close()
	expectUnmoved := func(what string) {
		t.Helper()
		if got := foundTokens(h, model, tokens); got != len(tokens) || h.State().Cache.Dir != from {
			t.Errorf("%s: %d tokens are found in %s", what, got, h.State().Cache.Dir)
		}
	}

	m := h.mover(&saved, true)
	m.Save = func(string) error { return errors.New("no settings") }
	job, err := list.Wait(t.Context(), list.Start(m.Job(to)).ID)
	if err != nil || job.State != jobs.Failed || problem.From(job.Err).Why != "no settings" {
		t.Errorf("settings that cannot be saved: %+v, %v", job, err)
	}
	expectUnmoved("settings that cannot be saved")

	visitor, err := blockstore.Open(from, blockstore.Options{Visit: true})
	if err != nil {
		t.Fatal(err)
	}
	job, err = list.Wait(t.Context(), list.Start(h.mover(&saved, true).Job(to)).ID)
	if err != nil || job.State != jobs.Failed ||
		problem.From(job.Err).Message != "Another program has the cache open" {
		t.Errorf("another program has the cache open: %+v, %v", job, err)
	}
	expectUnmoved("another program has the cache open")
	if err := visitor.Close(); err != nil {
		t.Fatal(err)
	}

	a := h.run("a") // it stays busy, so the move cannot begin
	a.mu.Lock()
	a.stats = engine.Stats{Waiting: 1}
	a.mu.Unlock()
	id := list.Start(h.mover(&saved, true).Job(to)).ID
	if err := list.Stop(id); err != nil {
		t.Fatal(err)
	}
	if job, err = list.Wait(t.Context(), id); err != nil || job.State != jobs.Stopped {
		t.Errorf("stopped: %+v, %v", job, err)
	}
	expectUnmoved("stopped")
	if err := list.Remove(id); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a stopped move left its folder: %v", err)
	}
	if saved.Load() != nil {
		t.Errorf("the settings name %v", saved.Load())
	}
	expectUnmoved("at the end")

	for name, dir := range map[string]string{"itself": from, "inside": filepath.Join(from, "x"),
		"not absolute": "x", "nowhere": "/nowhere/at/all/ever"} {
		_, err := h.mover(&saved, false).Check(dir)
		if problem.From(err).Code != problem.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStartDuringMove: while the cache is closed, State has its last figures. A model that is
// started meanwhile is loaded after the move.
func TestStartDuringMove(t *testing.T) {
	dir := t.TempDir()
	h := withCache(t, filepath.Join(dir, "old"))
	h.run("a")
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- h.WithCacheClosed(t.Context(), func() (string, error) {
			close(begun)
			<-end
			return filepath.Join(dir, "other"), nil
		})
	}()
	<-begun
	if s := h.cache.store(); s != nil {
		t.Error("engines get a closed cache")
	}
	if _, err := h.Conversations(); problem.From(err).Code != problem.Loading {
		t.Errorf("Conversations while the cache is closed: %v", err)
	}
	if c := h.State().Cache; !c.On || c.Dir != filepath.Join(dir, "old") {
		t.Errorf("State while the cache is closed: %+v", c)
	}
	h.start("b")
	close(end)
	b := h.loading("b")
	b.finish <- nil
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expect(Ready, "b")
}

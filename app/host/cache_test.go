package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// withCache returns a host with a disk cache in dir.
func withCache(t *testing.T, dir string) *testHost {
	return newTestHostWith(t, func(o *Options) {
		o.Cache = cache.Options{Dir: dir}
		o.Cache.Limits.MinFreeBytes = -1 // whatever is free on the machine of the test
		o.Engine = func(id string) engine.Options {
			return engine.Options{ContextTokens: map[string]int{"a": 1000, "b": 2000}[id]}
		}
	})
}

// TestEnginesShareTheCache: every engine gets the same store with the options of its own model, and
// the store stays open after the engine is closed.
func TestEnginesShareTheCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blocks")
	h := withCache(t, dir)
	a := h.run("a")
	b := h.run("b")
	if a.o.BlockStore == nil || a.o.BlockStore != b.o.BlockStore {
		t.Errorf("the engines have the stores %p and %p, want the same one", a.o.BlockStore,
			b.o.BlockStore)
	}
	if a.o.ModelName != "a" || b.o.ModelName != "b" || a.o.ContextTokens != 1000 ||
		b.o.ContextTokens != 2000 {
		t.Errorf("%q opened with a context of %d, %q with %d", a.o.ModelName, a.o.ContextTokens,
			b.o.ModelName, b.o.ContextTokens)
	}
	b.mu.Lock()
	b.stats = engine.Stats{KVBytes: 100, KVUsedBytes: 30}
	b.mu.Unlock()
	c := h.State().Cache
	if !c.On || c.Dir != dir || c.MaxBytes <= 0 || c.MaxBytes > 20e9 || c.FreeBytes <= 0 ||
		c.DailyWriteBytes != 40e9 || c.MemoryBytes != 70 || c.Error != "" {
		t.Errorf("cache %+v", c)
	}
	b.atClose = func() {
		if _, err := os.Stat(filepath.Join(dir, "index.sqlite")); err != nil {
			t.Error(err)
		}
		if h.cache.current().Stats().FreeBytes == 0 {
			t.Error("the store is closed before the engine")
		}
	}
	h.Close()
	if _, err := h.Conversations(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Conversations of a closed host: %v", err)
	}
	if got := h.State().Cache; !got.On || got.Dir != dir {
		t.Errorf("after Close: cache %+v", got)
	}
}

// TestCacheThatCannotBeOpened: the state reports the error, and models still run.
func TestCacheThatCannotBeOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := withCache(t, filepath.Join(file, "blocks"))
	e := h.run("a")
	if e.o.BlockStore != nil {
		t.Error("the engine has a store")
	}
	if c := h.expect(Ready, "a").Cache; c.On || !strings.Contains(c.Error, "not a directory") {
		t.Errorf("cache %+v", c)
	}
}

// TestCacheIsOpenedLater: a cache that could not be opened is opened once its disk is there again.
// The running model is loaded again with it, after it was idle for some minutes.
func TestCacheIsOpenedLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := newTestHostWith(t, func(o *Options) {
		o.Cache, o.ReopenPause = cache.Options{Dir: filepath.Join(file, "blocks")}, time.Millisecond
	})
	e := h.run("a")
	if c := h.expect(Ready, "a").Cache; !strings.Contains(c.Error, "tries again") {
		t.Errorf("cache %+v", c)
	}
	now := time.Now()
	h.unloadIdle(now) // idle from here on
	h.reloadForCache(now.Add(time.Hour))
	h.expect(Ready, "a")

	changed, done := h.Subscribe()
	defer done()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for !h.State().Cache.On {
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("the cache stays off: %+v", h.State().Cache)
		}
	}
	if c := h.State().Cache; c.Error != notYetUsed {
		t.Errorf("cache %+v", c)
	}
	h.reloadForCache(now.Add(reloadIdle - time.Second))
	h.expect(Ready, "a")
	h.reloadForCache(now.Add(reloadIdle))
	<-e.closed
	e = h.loading("a")
	e.finish <- nil
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := h.expect(Ready, "a").Cache; e.o.BlockStore == nil || c.Error != "" {
		t.Errorf("store %p, cache %+v", e.o.BlockStore, c)
	}
	h.unloadIdle(now)
	h.reloadForCache(now.Add(2 * time.Hour)) // it has the cache
	h.expect(Ready, "a")
}

// TestLockedCacheIsNotTriedAgain: an attempt may ask the user to unlock the keychain.
func TestLockedCacheIsNotTriedAgain(t *testing.T) {
	var attempts atomic.Int32
	h := newTestHostWith(t, func(o *Options) {
		o.ReopenPause = time.Millisecond
		o.Cache = cache.Options{Dir: filepath.Join(t.TempDir(), "blocks"),
			Key: func() (seal.Key, error) {
				attempts.Add(1)
				return seal.Key{}, problem.New(problem.Locked, "The keychain is locked", "", "")
			}}
	})
	if c := h.State().Cache; c.On || strings.Contains(c.Error, "again") {
		t.Errorf("cache %+v", c)
	}
	if _, due := h.cache.failed(); due || attempts.Load() != 1 {
		t.Errorf("%d attempts, another is due: %t", attempts.Load(), due)
	}
}

func TestNoCache(t *testing.T) {
	h := newTestHost(t)
	if e := h.run("a"); e.o.BlockStore != nil {
		t.Error("the engine has a store, but the cache is off")
	}
	if c := h.State().Cache; c != (cache.Stats{}) {
		t.Errorf("cache %+v", c)
	}
}

// TestConversations: the list holds the conversations in the running model's memory and those on
// disk. Without a model it holds only those on disk.
func TestConversations(t *testing.T) {
	h := withCache(t, filepath.Join(t.TempDir(), "blocks"))
	list, err := h.Conversations()
	if err != nil || len(list.Conversations) != 0 || !list.Stats.On {
		t.Errorf("without a model: %+v, %v", list, err)
	}
	e := h.run("a")
	e.stored = engine.StoredModel{Name: "a", Fingerprint: "f", Format: "K8 V4 #12"}
	e.prefixes = []engine.CachedPrefix{{Tokens: []int32{5, 6}}}
	list, err = h.Conversations()
	want := cache.Conversation{Model: "a", Fingerprint: "f", Format: "K8 V4", Title: "about 5",
		Tokens: 2, MemoryTokens: 2}
	if err != nil || len(list.Conversations) != 1 || list.Conversations[0] != want {
		t.Errorf("in memory: %+v, %v; want %+v", list, err, want)
	}
	if r, err := h.ClearCache(""); err != nil || r != (cache.Removed{MemoryBytes: 1}) {
		t.Errorf("clearing a cache that holds only memory: %+v, %v", r, err)
	}
	for name, err := range map[string]error{"show": second(h.Conversation("abcd")),
		"remove": second(h.RemoveConversation("abcd")), "pin": h.PinConversation("abcd", true)} {
		if problem.From(err).Code != problem.NotFound {
			t.Errorf("%s: %v, want %s", name, err, problem.NotFound)
		}
	}
}

// store writes a conversation of a model to disk and returns its key.
func store(t *testing.T, h *testHost, m engine.StoredModel, tokens []int32) string {
	t.Helper()
	done := make(chan struct{})
	ok := h.cache.store().Model(m).Save(
		blockstore.Sequence{Tokens: tokens, Tail: true, Title: "kept",
			Done: func(blockstore.Saved) { close(done) },
			KV: func(from, to int) []blockstore.Tensor {
				return []blockstore.Tensor{{Name: "k", Pieces: [][]byte{make([]byte, 64)}}}
			}})
	if !ok {
		t.Fatal("the store refused the sequence")
	}
	<-done
	list, err := h.Conversations()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Conversations {
		if c.Key != "" && c.Fingerprint == m.Fingerprint {
			return c.Key
		}
	}
	t.Fatalf("the conversation is not listed: %+v", list)
	return ""
}

// TestForgetting: a conversation is removed from memory if its model is running, and from disk.
func TestForgetting(t *testing.T) {
	h := withCache(t, filepath.Join(t.TempDir(), "blocks"))
	e := h.run("a")
	e.stored = engine.StoredModel{Name: "a", Fingerprint: "f", Format: "K8 V4 #12"}
	tokens := make([]int32, 300)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	key := store(t, h, e.stored, tokens)
	if r, err := h.ForgetConversation(key); err != nil || r != (cache.Removed{MemoryBytes: 300}) {
		t.Errorf("ForgetConversation: %+v, %v", r, err)
	}
	if r, err := h.RemoveConversation(key); err != nil || r.MemoryBytes != 300 || r.Entries == 0 {
		t.Errorf("RemoveConversation: %+v, %v", r, err)
	}
	if len(e.forgotten) != 2 || !slices.Equal(e.forgotten[0], tokens) ||
		!slices.Equal(e.forgotten[1], tokens) {
		t.Errorf("the engine was asked to forget %v", e.forgotten)
	}
	other := store(t, h, engine.StoredModel{Name: "b", Fingerprint: "g", Format: "K8 V4 #12"},
		tokens)
	if r, err := h.RemoveConversation(other); err != nil || r.MemoryBytes != 0 || r.Entries == 0 ||
		len(e.forgotten) != 2 {
		t.Errorf("RemoveConversation of another model: %+v, %v; the engine was asked %d times", r,
			err, len(e.forgotten))
	}
	for model, want := range map[string]int64{"": 1, "A": 1, "f": 1, "g": 0} {
		if got := h.ForgetAll(model).MemoryBytes; got != want {
			t.Errorf("ForgetAll(%q) freed %d bytes, want %d", model, got, want)
		}
	}
	h.Stop()
	if got := h.ForgetAll(""); got != (cache.Removed{}) {
		t.Errorf("ForgetAll without a model: %+v", got)
	}
}

func second[T any](_ T, err error) error { return err }

// TestConversationsWithoutDisk: conversations in memory are still listed, and the figures say why
// there is no disk cache.
func TestConversationsWithoutDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := withCache(t, filepath.Join(file, "blocks"))
	h.run("a").prefixes = []engine.CachedPrefix{{Tokens: []int32{5, 6}}}
	list, err := h.Conversations()
	if err != nil || len(list.Conversations) != 1 || list.Conversations[0].Model != "a" ||
		list.Conversations[0].Format != "f16" {
		t.Errorf("%+v, %v", list.Conversations, err)
	}
	if list.Stats.On || !strings.Contains(list.Stats.Error, "not a directory") {
		t.Errorf("figures %+v", list.Stats)
	}
}

// TestSetCacheLimits: new limits apply and are shown at once. Without a cache the call does
// nothing.
func TestSetCacheLimits(t *testing.T) {
	h := withCache(t, filepath.Join(t.TempDir(), "blocks"))
	defaultMax := h.State().Cache.MaxBytes
	for _, c := range []struct{ set, want engine.BlockStoreLimits }{
		{engine.BlockStoreLimits{MaxBytes: 5e6, MinFreeBytes: -1, DailyWriteBytes: 7},
			engine.BlockStoreLimits{MaxBytes: 5e6, MinFreeBytes: -1, DailyWriteBytes: 7}},
		{engine.BlockStoreLimits{},
			engine.BlockStoreLimits{MaxBytes: defaultMax, MinFreeBytes: 10e9,
				DailyWriteBytes: 40e9}},
	} {
		if err := h.SetCacheLimits(c.set); err != nil {
			t.Fatal(err)
		}
		s := h.State().Cache
		if got := (engine.BlockStoreLimits{MaxBytes: s.MaxBytes, MinFreeBytes: s.MinFreeBytes,
			DailyWriteBytes: s.DailyWriteBytes}); got != c.want {
			t.Errorf("set %+v: %+v, want %+v", c.set, got, c.want)
		}
	}
	if s := h.State().Cache; s.DiskBytes < s.FreeBytes || s.WrittenSince <= 0 {
		t.Errorf("a disk of %d bytes with %d free, and writes counted since %d", s.DiskBytes,
			s.FreeBytes, s.WrittenSince)
	}
	if err := newTestHost(t).SetCacheLimits(engine.BlockStoreLimits{MaxBytes: 1}); err != nil {
		t.Errorf("without a cache: %v", err)
	}
}

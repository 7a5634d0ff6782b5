package host

// The cache on disk in the host's hands: opened before the first model and closed after the last,
// and lent to every engine between. Without it everything works, only slower, so one that cannot be
// opened is something to say and no reason to stop.

import (
	"log/slog"
	"strings"
	"sync"

	"headroom/app/cache"
	"headroom/engine"
)

// keeper holds the cache. While it moves (movecache.go) the one that is closed stays in it, for its
// figures.
type keeper struct {
	mu      sync.Mutex
	o       cache.Options
	cache   *cache.Cache // nil: there is none
	failure string       // why there is none although one was asked for
	closed  bool
}

func (k *keeper) open(o cache.Options, log *slog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.o, k.cache, k.failure, k.closed = o, nil, "", false; o.Dir == "" {
		return
	}
	o.Limits.Log = log
	if err := cache.FinishMove(o.Dir); err != nil { // the folder is whole in any case
		log.Warn("a move of the cache has left something behind", "dir", o.Dir, "err", err)
	}
	var err error
	if k.cache, err = cache.Open(o); err != nil {
		k.cache, k.failure = nil, err.Error()
		log.Warn("nothing is kept on disk: the cache cannot be opened", "dir", o.Dir, "err", err)
	}
}

// now is the cache, nil for none.
func (k *keeper) now() *cache.Cache {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cache
}

// store is what engines take; nil for none.
func (k *keeper) store() *engine.BlockStore {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cache == nil || k.closed {
		return nil
	}
	return k.cache.Store()
}

// remember keeps limits for the next opening.
func (k *keeper) remember(l engine.BlockStoreLimits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.o.Limits.MaxBytes, k.o.Limits.MinFreeBytes, k.o.Limits.DailyWriteBytes = l.MaxBytes,
		l.MinFreeBytes, l.DailyWriteBytes
}

// stats is State's part. hotBytes is what memory keeps.
func (k *keeper) stats(hotBytes int64) cache.Stats {
	k.mu.Lock()
	s, c := cache.Stats{Dir: k.o.Dir, Error: k.failure}, k.cache
	k.mu.Unlock()
	if c != nil {
		s = c.Recent()
	}
	s.HotBytes = hotBytes
	return s
}

func (k *keeper) close(log *slog.Logger) {
	k.mu.Lock()
	c := k.cache
	k.closed = true
	k.mu.Unlock()
	if c == nil {
		return
	}
	if err := c.Close(); err != nil {
		log.Warn("closing the cache on disk", "err", err)
	}
}

// Conversations lists what is kept, on disk and in memory. It waits for the pass that the engine is
// at.
func (h *Host) Conversations() (cache.List, error) {
	memory, hotBytes := h.memory()
	list, err := h.cache.now().List(memory)
	if err == nil && !list.Stats.On {
		list.Stats = h.cache.stats(0)
	}
	list.Stats.HotBytes = hotBytes
	return list, err
}

// Conversation describes the conversation whose key begins so.
func (h *Host) Conversation(key string) (cache.Detail, error) {
	memory, _ := h.memory()
	return h.cache.now().Show(key, memory)
}

// RemoveConversation forgets a conversation: in memory first, so that nothing of it is written any
// more, then its files.
func (h *Host) RemoveConversation(key string) (cache.Removed, error) {
	freed, err := h.ForgetConversation(key)
	if err != nil {
		return cache.Removed{}, err
	}
	removed, err := h.cache.now().Remove(key)
	removed.MemoryBytes = freed.MemoryBytes
	return removed, err
}

// ForgetConversation frees what memory has of a conversation that is on disk, and leaves its files.
// It waits for the pass that the engine is at.
func (h *Host) ForgetConversation(key string) (cache.Removed, error) {
	model, tokens, err := h.cache.now().Tokens(key)
	if err != nil || len(tokens) == 0 {
		return cache.Removed{}, err
	}
	var freed cache.Removed
	if t := h.runningNow(); t != nil {
		if stored := t.engine.StoredModel(); stored.Fingerprint == model.Fingerprint &&
			stored.Format == model.Format {
			freed.MemoryBytes = t.engine.Forget(tokens)
		}
	}
	h.read.Forget(model.Fingerprint, tokens)
	return freed, nil
}

// ForgetAll frees what the running model remembers, if it is that one, by its fingerprint or its
// name, or any for "".
func (h *Host) ForgetAll(model string) cache.Removed {
	t := h.runningNow()
	if t == nil {
		return cache.Removed{}
	}
	stored := t.engine.StoredModel()
	if model != "" && model != stored.Fingerprint && !strings.EqualFold(model, stored.Name) {
		return cache.Removed{}
	}
	freed := cache.Removed{MemoryBytes: t.engine.ForgetAll()}
	h.read.Forget(stored.Fingerprint, nil)
	return freed
}

func (h *Host) runningNow() *target {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running()
}

// PinConversation keeps a conversation from being evicted, or ends that.
func (h *Host) PinConversation(key string,
	pinned bool) error {
	return h.cache.now().Pin(key, pinned)
}

// ClearCache forgets everything, or what is of one model: in memory, then on disk.
func (h *Host) ClearCache(model string) (cache.Removed, error) {
	freed := h.ForgetAll(model)
	if h.cache.now() == nil && freed.MemoryBytes > 0 {
		return freed, nil
	}
	removed, err := h.cache.now().Clear(model)
	removed.MemoryBytes = freed.MemoryBytes
	return removed, err
}

// SetCacheLimits changes the limits of the cache on disk at once, if there is one. The error is a
// Problem.
func (h *Host) SetCacheLimits(l engine.BlockStoreLimits) error {
	h.cache.remember(l)
	return h.limitCache(l)
}

// limitCache is SetCacheLimits for now: a cache that is opened again has what was asked for.
func (h *Host) limitCache(l engine.BlockStoreLimits) error {
	if h.cache.store() == nil {
		return nil
	}
	h.mu.Lock()
	l.Sparing = h.measures.SpareDisk
	h.mu.Unlock()
	if err := h.cache.now().SetLimits(l); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.have != nil {
		if e, ok := h.have.engine.(interface{ SetStoreLimits(engine.BlockStoreLimits) }); ok {
			// it has the folder open as well
			if store := h.cache.store(); store != nil {
				e.SetStoreLimits(store.Limits())
			}
		}
	}
	h.announce()
	return nil
}

// memory is what the running model remembers, nil without one, and what that takes beyond running
// requests.
func (h *Host) memory() (m *cache.Memory, hotBytes int64) {
	t := h.runningNow()
	if t == nil {
		return nil, 0
	}
	m = &cache.Memory{StoredModel: t.engine.StoredModel(), Remembered: t.engine.CachedPrefixes(),
		Title: t.engine.Title}
	if m.Fingerprint == "" { // no store, which would know
		m.Name, m.Format = t.model.ID, t.engine.Info().KVFormat
	}
	return m, engineBytes(t.engine.Stats()).KVKept
}

package host

// The host's cache on SSD. The host opens it before the first model and closes it after the last;
// all engines in between use it. Models also run without it, only slower. So if the cache cannot
// be opened, State reports that, and the host continues; cachereopen.go tries again.

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/app/cache"
	"headroom/engine"
)

// diskCache has the open cache. While the folder is moved (cacheclosed.go), it keeps the closed
// cache, because State still shows the figures.
type diskCache struct {
	mu      sync.Mutex
	o       cache.Options
	cache   *cache.Cache  // nil: none
	failure string        // why the cache could not be opened, "" if it is open or off
	again   bool          // cachereopen.go tries to open it again
	pause   time.Duration // Options.ReopenPause
	closed  bool
}

func (k *diskCache) open(o cache.Options, log *slog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.o, k.cache, k.failure, k.again, k.closed = o, nil, "", false, false
	if o.Dir == "" {
		return
	}
	o.Limits.Log = log
	k.o = o
	if err := cache.FinishMove(o.Dir); err != nil { // o.Dir is complete all the same
		log.Warn("a move of the cache left files behind", "dir", o.Dir, "err", err)
	}
	var err error
	if k.cache, err = cache.Open(o); err != nil {
		k.cache = nil
		k.failure, k.again = openFailure(err, k.pause)
		log.Warn("the cache on SSD is off: it could not be opened", "dir", o.Dir, "err", err)
	}
}

// current returns the cache, nil for none.
func (k *diskCache) current() *cache.Cache {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cache
}

// store returns the block store for engines, nil for none.
func (k *diskCache) store() *engine.BlockStore {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cache == nil || k.closed {
		return nil
	}
	return k.cache.Store()
}

// remember stores the limits for the next time the cache is opened.
func (k *diskCache) remember(l engine.BlockStoreLimits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.o.Limits.MaxBytes, k.o.Limits.MinFreeBytes, k.o.Limits.DailyWriteBytes = l.MaxBytes,
		l.MinFreeBytes, l.DailyWriteBytes
}

// stats returns the cache part of State. memoryBytes is the size of the cache in memory.
func (k *diskCache) stats(memoryBytes int64) cache.Stats {
	k.mu.Lock()
	s, c := cache.Stats{Dir: k.o.Dir, Error: k.failure}, k.cache
	k.mu.Unlock()
	if c != nil {
		s = c.Recent()
	}
	s.MemoryBytes = memoryBytes
	return s
}

func (k *diskCache) close(log *slog.Logger) {
	k.mu.Lock()
	c := k.cache
	k.closed = true
	k.mu.Unlock()
	if c == nil {
		return
	}
	if err := c.Close(); err != nil {
		log.Warn("closing the cache on SSD failed", "err", err)
	}
}

// memoryPatience is how long the lists of conversations wait for the loaded models. They answer
// between two steps.
const memoryPatience = 500 * time.Millisecond

// Conversations lists the cached conversations, on disk and in memory. If a loaded model does not
// answer at once, List.Stale is set, and what is in its memory is as it was earlier, or missing.
func (h *Host) Conversations() (cache.List, error) {
	memory, memoryBytes, current := h.memory()
	list, err := h.cache.current().List(memory...)
	if err == nil && !list.Stats.On {
		list.Stats = h.cache.stats(0)
	}
	list.Stats.MemoryBytes, list.Stale = memoryBytes, !current
	return list, err
}

// Conversation describes the conversation whose key begins with these digits, 4 or more.
func (h *Host) Conversation(key string) (cache.Detail, error) {
	memory, _, _ := h.memory()
	return h.cache.current().Show(key, memory...)
}

// RemoveConversation removes a conversation from memory, then from disk. In this order the engine
// cannot write it again.
func (h *Host) RemoveConversation(key string) (cache.Removed, error) {
	freed, err := h.ForgetConversation(key)
	if err != nil {
		return cache.Removed{}, err
	}
	removed, err := h.cache.current().Remove(key)
	removed.MemoryBytes = freed.MemoryBytes
	return removed, err
}

// ForgetConversation removes a conversation from memory and leaves its files. It waits until the
// engine's current step has ended.
func (h *Host) ForgetConversation(key string) (cache.Removed, error) {
	model, tokens, err := h.cache.current().Tokens(key)
	if err != nil || len(tokens) == 0 {
		return cache.Removed{}, err
	}
	var freed cache.Removed
	for _, t := range h.runningTargets() {
		if stored := t.engine.StoredModel(); stored.Fingerprint == model.Fingerprint &&
			stored.Format == model.Format {
			freed.MemoryBytes += t.engine.Forget(tokens)
		}
	}
	h.computed.Forget(model.Fingerprint, tokens)
	return freed, nil
}

// ForgetAll empties the prefix caches of the loaded models whose fingerprint or name is model; ""
// means all.
func (h *Host) ForgetAll(model string) (freed cache.Removed) {
	for _, t := range h.runningTargets() {
		stored := t.engine.StoredModel()
		if model != "" && model != stored.Fingerprint && !strings.EqualFold(model, stored.Name) {
			continue
		}
		freed.MemoryBytes += t.engine.ForgetAll()
		h.computed.Forget(stored.Fingerprint, nil)
	}
	return freed
}

// PinConversation protects a conversation from eviction, or ends its protection.
func (h *Host) PinConversation(key string, pinned bool) error {
	return h.cache.current().Pin(key, pinned)
}

// ClearCache removes all conversations, or those of one model, from memory, then from disk.
func (h *Host) ClearCache(model string) (cache.Removed, error) {
	freed := h.ForgetAll(model)
	if h.cache.current() == nil && freed.MemoryBytes > 0 {
		return freed, nil
	}
	removed, err := h.cache.current().Clear(model)
	removed.MemoryBytes = freed.MemoryBytes
	return removed, err
}

// SetCacheLimits changes the limits of the cache on SSD, at once and for the next time it is
// opened. The error is a Problem.
func (h *Host) SetCacheLimits(l engine.BlockStoreLimits) error {
	h.cache.remember(l)
	return h.limitCache(l)
}

// limitCache applies the limits to the open cache, here and in the worker processes. On battery it
// also reduces writes, if the power measures say so.
func (h *Host) limitCache(l engine.BlockStoreLimits) error {
	if h.cache.store() == nil {
		return nil
	}
	h.mu.Lock()
	l.Sparing = h.power.measures.ReduceWrites
	h.mu.Unlock()
	if err := h.cache.current().SetLimits(l); err != nil {
		return err
	}
	for _, e := range h.loadedEngines() {
		if e, ok := e.(interface{ SetStoreLimits(engine.BlockStoreLimits) }); ok {
			// The worker process has the folder open, too.
			if store := h.cache.store(); store != nil {
				e.SetStoreLimits(store.Limits())
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers.notify()
	return nil
}

// memory returns the prefixes that the loaded models have cached, and the bytes that they take in
// addition to the running requests. current is false if a model did not answer within
// memoryPatience.
func (h *Host) memory() (list []*cache.Memory, memoryBytes int64, current bool) {
	targets := h.runningTargets()
	list = make([]*cache.Memory, len(targets))
	answered := make([]bool, len(targets))
	var asking sync.WaitGroup // they answer at the same time
	for n, t := range targets {
		m := &cache.Memory{StoredModel: t.engine.StoredModel(), Title: t.engine.Title}
		if m.Fingerprint == "" { // without a store, the engine does not set these
			m.Name, m.Format = t.model.ID, t.engine.Info().KVFormat
		}
		list[n] = m
		memoryBytes += engineBytes(t.engine.Stats()).KVCached
		asking.Go(func() {
			if p, ok := t.engine.(processEngine); ok {
				m.Prefixes, answered[n] = p.CachedPrefixesWithin(memoryPatience)
			} else {
				m.Prefixes, answered[n] = t.engine.CachedPrefixes(), true
			}
		})
	}
	asking.Wait()
	return list, memoryBytes, !slices.Contains(answered, false)
}

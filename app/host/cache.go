package host

// The cache on disk in the host's hands: opened before the first model and closed after the last, and lent to every engine between.
// Without it everything works, only slower, so one that cannot be opened is something to say and no reason to stop.

import (
	"log/slog"

	"headroom/app/cache"
	"headroom/engine"
)

// keeper holds the cache. Only open writes its fields.
type keeper struct {
	cache   *cache.Cache // nil: there is none
	dir     string
	failure string // why there is none although one was asked for
}

func (k *keeper) open(o cache.Options, log *slog.Logger) {
	if k.dir = o.Dir; o.Dir == "" {
		return
	}
	o.Limits.Log = log
	var err error
	if k.cache, err = cache.Open(o); err != nil {
		k.cache, k.failure = nil, err.Error()
		log.Warn("nothing is kept on disk: the cache cannot be opened", "dir", o.Dir, "err", err)
	}
}

// store is what engines take; nil for none.
func (k *keeper) store() *engine.BlockStore {
	if k.cache == nil {
		return nil
	}
	return k.cache.Store()
}

// stats is State's part. hotBytes is what memory keeps.
func (k *keeper) stats(hotBytes int64) cache.Stats {
	s := cache.Stats{Dir: k.dir, Error: k.failure}
	if k.cache != nil {
		s = k.cache.Recent()
	}
	s.HotBytes = hotBytes
	return s
}

func (k *keeper) close(log *slog.Logger) {
	if k.cache == nil {
		return
	}
	if err := k.cache.Close(); err != nil {
		log.Warn("closing the cache on disk", "err", err)
	}
}

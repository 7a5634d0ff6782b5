package host

// A cache that could not be opened, because its disk was full, missing or read-only. The host tries
// again with growing pauses, on a goroutine of its own: a disk may take long to fail. The engine
// gets its store when a model is loaded. So once the cache is open, a model that was loaded without
// it is loaded again, at a time when that hardly disturbs: its prefix cache in memory is lost.
//
// A locked cache is not tried again, because each attempt may ask the user for the keychain.

import (
	"context"
	"fmt"
	"time"

	"headroom/app/cache"
	"headroom/engine"
	"headroom/engine/problem"
)

const (
	firstReopenPause = 10 * time.Second // default of Options.ReopenPause
	reopenDoublings  = 6                // the pause then stays at about ten minutes
	// reloadIdle is how long a model without the cache is idle before it is loaded again with it.
	reloadIdle = 5 * time.Minute
)

// notYetUsed is the error of a cache that the running model does not use yet.
var notYetUsed = fmt.Sprintf("the cache could not be opened at first; the model uses it as soon "+
	"as it is loaded again, which happens by itself after %d minutes without requests",
	int(reloadIdle/time.Minute))

// runReopen opens the cache as soon as that is possible, until ctx ends.
func (h *Host) runReopen(ctx context.Context) {
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(h.options.ReopenPause << min(failures, reopenDoublings)):
		}
		o, off := h.cache.failed()
		if !off {
			failures = 0
			continue
		}
		c, err := cache.Open(o)
		switch {
		case err != nil:
			failures++
			h.cache.stillFailed(o, err)
		case h.cache.install(o, c):
			failures = 0
			h.log.Info("the cache on SSD is open", "dir", o.Dir)
			if err := h.limitCache(h.cache.limits()); err != nil {
				h.log.Warn("setting the cache's limits failed", "err", err)
			}
			h.mu.Lock()
			h.subscribers.notify()
			h.mu.Unlock()
		default: // the folder was moved meanwhile, or the host ends
			_ = c.Close()
		}
	}
}

// openFailure describes why the cache is off. again reports whether opening is tried again.
func openFailure(err error, pause time.Duration) (text string, again bool) {
	if problem.From(err).Code == problem.Locked {
		return err.Error(), false
	}
	most := (pause << reopenDoublings).Round(time.Minute)
	return fmt.Sprintf("%v. Headroom tries again by itself, at the latest after %d minutes", err,
		int(max(most, time.Minute)/time.Minute)), true
}

// failed returns the options for another attempt. off is false if none is due.
func (k *diskCache) failed() (o cache.Options, off bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.o, k.again && !k.closed
}

// stillFailed records why another attempt has failed.
func (k *diskCache) stillFailed(o cache.Options, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.again && k.o.Dir == o.Dir {
		k.failure, k.again = openFailure(err, k.pause)
	}
}

// install makes c the open cache, and reports whether it is still wanted.
func (k *diskCache) install(o cache.Options, c *cache.Cache) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.again || k.closed || k.o.Dir != o.Dir {
		return false
	}
	k.cache, k.failure, k.again = c, "", false
	return true
}

func (k *diskCache) limits() engine.BlockStoreLimits {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.o.Limits
	return engine.BlockStoreLimits{MaxBytes: l.MaxBytes, MinFreeBytes: l.MinFreeBytes,
		DailyWriteBytes: l.DailyWriteBytes}
}

// lacksCache reports whether t was loaded while the cache could not be opened, and it is open now.
func (h *Host) lacksCache(t *target) bool {
	return t != nil && !t.stores && h.cache.store() != nil
}

// reloadForCache loads the models again that lack the cache, after they were idle for reloadIdle.
// unloadIdle has recorded since when they are idle.
func (h *Host) reloadForCache(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.instances {
		t := i.running()
		if !h.lacksCache(t) || t != i.observed || i.busy() || now.Sub(i.usedAt) < reloadIdle {
			continue
		}
		h.log.Info("loading an idle model again, with the cache on SSD", "model", i.model.ID)
		h.setWanted(i, &target{byPerson: t.byPerson, requestsWait: true, reload: true})
	}
}

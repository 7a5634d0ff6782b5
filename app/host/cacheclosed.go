package host

// Work that needs the cache on SSD closed, such as moving its folder. The host unloads the models
// as soon as all are idle, closes the cache, and loads the models again afterwards. Requests in
// between wait.

import (
	"context"
	"time"

	"headroom/engine/problem"
)

// idlePoll is how often busy models are checked for being idle.
const idlePoll = 100 * time.Millisecond

// WithCacheClosed waits until no request runs, closes the cache, calls do, and opens the cache in
// the folder that do returns, even if do fails. The error is the error of do, or says why the cache
// could not be opened. If ctx ends before do is called, nothing changes.
func (h *Host) WithCacheClosed(ctx context.Context, do func() (dir string, err error)) error {
	done := make(chan error, 1)
	work := func() { done <- h.runCacheClosed(do) }
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	for !h.schedule(work) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.background.ended:
			return errShutDown()
		case <-tick.C:
		}
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-h.background.ended:
	}
	h.mu.Lock()
	withdrawn := h.maintenance != nil
	h.maintenance = nil
	h.mu.Unlock()
	switch {
	case !withdrawn:
		return <-done
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errShutDown()
}

func errShutDown() error {
	return problem.New(problem.NotRunning, "Headroom is shutting down", "", "")
}

// schedule passes work to the loader and reports whether it did. It does not while a model is
// loading or busy. Loaded models are unloaded first and loaded again after the work.
func (h *Host) schedule(work func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.maintenance != nil {
		return false
	}
	for _, i := range h.instances {
		if loading := i.want != nil && i.want != i.have && i.failure == nil; loading || i.busy() {
			return false
		}
	}
	for _, i := range h.instances {
		if t := i.running(); t != nil {
			h.setWanted(i, &target{byPerson: t.byPerson, requestsWait: true, reload: true})
		}
	}
	h.maintenance = work
	h.wakeLoader()
	return true
}

// runCacheClosed closes the cache, calls do, and opens the cache again. The loader calls it while
// no model is loaded.
func (h *Host) runCacheClosed(do func() (string, error)) error {
	h.cache.stats(0) // keeps the figures that State shows meanwhile
	h.cache.close(h.log)
	dir, err := do()
	h.cache.mu.Lock()
	o := h.cache.o
	h.cache.mu.Unlock()
	o.Dir = dir
	h.cache.open(o, h.log)
	if store := h.cache.store(); store != nil {
		// On battery, limitCache also reduces writes.
		if err := h.limitCache(store.Limits()); err != nil {
			h.log.Warn("setting the cache's limits failed", "err", err)
		}
	}
	h.cache.mu.Lock()
	failure := h.cache.failure
	h.cache.mu.Unlock()
	h.mu.Lock()
	h.subscribers.notify()
	h.mu.Unlock()
	if err == nil && failure != "" {
		err = problem.New(problem.Internal, "The cache in "+dir+" cannot be opened", failure,
			"Until it is open, no conversations are written to disk.")
	}
	return err
}

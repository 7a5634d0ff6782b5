package host

// The cache on disk at rest: for as long as its folder is being changed nobody has it open, neither
// the host nor a model's process. The model is unloaded when it has nothing to do, and loaded again
// afterwards; requests in between wait for it as for one that rested.

import (
	"context"
	"time"

	"headroom/engine/problem"
)

// idlePoll is how often a model that answers is asked whether it has come to an end.
const idlePoll = 100 * time.Millisecond

// RestCache waits until no request is under way, closes the cache, runs do, and opens the cache in
// the folder that do returns, whatever its error. It returns do's error, or why the cache cannot be
// opened. When ctx ends before do has begun, nothing has happened.
func (h *Host) RestCache(ctx context.Context, do func() (dir string, err error)) error {
	done := make(chan error, 1)
	errand := func() { done <- h.restCache(do) }
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	for !h.send(errand) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.ended:
			return errShutDown()
		case <-tick.C:
		}
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-h.ended:
	}
	h.mu.Lock()
	withdrawn := h.errand != nil
	h.errand = nil
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
	return problem.New(problem.NotRunning, "Headroom is shutting down", "",
		"")
}

// send gives the worker an errand, unless the model has something to do. A model that runs is
// unloaded for it, and loaded again.
func (h *Host) send(errand func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	loading := h.want != nil && h.want != h.have && h.failure == nil
	if h.closed || h.errand != nil || loading {
		return false
	}
	if t := h.running(); t != nil {
		if s := t.engine.Stats(); s.Running+s.Waiting > 0 {
			return false
		}
		h.aim(&target{model: t.model, woken: true})
	}
	h.errand = errand
	h.poke()
	return true
}

// restCache is RestCache in the worker's hands, while no model is loaded.
func (h *Host) restCache(do func() (string, error)) error {
	h.cache.stats(0) // what is shown meanwhile
	h.cache.close(h.log)
	dir, err := do()
	h.cache.mu.Lock()
	o := h.cache.o
	h.cache.mu.Unlock()
	o.Dir = dir
	h.cache.open(o, h.log)
	if store := h.cache.store(); store != nil {
		if err := h.limitCache(store.Limits()); err != nil { // with what the power asks for
			h.log.Warn("the cache's limits", "err", err)
		}
	}
	h.cache.mu.Lock()
	failure := h.cache.failure
	h.cache.mu.Unlock()
	h.mu.Lock()
	h.announce()
	h.mu.Unlock()
	if err == nil && failure != "" {
		err = problem.New(problem.Internal, "The cache in "+dir+" cannot be opened", failure,
			"Nothing is kept on disk until Headroom starts again.")
	}
	return err
}

package host

import "context"

// WithAllForgotten ends all requests, unloads the models, closes the cache on SSD, and calls do.
// Nothing of what was in memory is written any more. Afterwards it opens the cache again and loads
// the model that was in front. The error is that of do, or says why the cache could not be opened.
func (h *Host) WithAllForgotten(ctx context.Context, do func() error) error {
	again := ""
	if t := h.frontTarget(); t != nil {
		again = t.model.ID
	}
	for _, t := range h.runningTargets() {
		for _, r := range t.engine.Stats().Requests {
			t.engine.Cancel(r.ID)
		}
		t.engine.ForgetAll() // so that unloading writes nothing
	}
	h.Stop()
	err := h.WithCacheClosed(ctx, func() (string, error) {
		h.cache.mu.Lock()
		dir := h.cache.o.Dir
		h.cache.mu.Unlock()
		return dir, do()
	})
	h.computed.Forget("", nil)
	if again != "" {
		if failed := h.Start(again); err == nil {
			err = failed
		}
	}
	return err
}

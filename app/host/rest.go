package host

// A model that nobody uses gives its memory back after a while, and rests: it is loaded again by
// the next request that names it, which waits for that. What it had read is on disk, where the
// cache keeps it.

import (
	"context"
	"time"

	"headroom/app/library"
	"headroom/engine/server"
)

// rest unloads the running model if nobody has used it for Options.RestAfter.
func (h *Host) rest(now time.Time) {
	after := time.Duration(0)
	if h.options.RestAfter != nil {
		after = h.options.RestAfter()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if most := h.measures.RestAfter; most > 0 && (after == 0 || after > most) {
		after = most
	}
	t := h.running()
	if t == nil {
		return
	}
	if stats := t.engine.Stats(); t != h.lastUsed || stats.Running+stats.Waiting > 0 {
		h.lastUsed, h.usedAt = t, now
	}
	if after > 0 && now.Sub(h.usedAt) >= after {
		h.log.Info("nobody has used the model", "model", t.model.ID, "for",
			now.Sub(h.usedAt).Round(time.Second))
		resting := t.model
		h.aim(nil)
		h.resting = &resting
	}
}

// Wake is Acquire for a request: a model that rests is loaded again first. The error is a Problem,
// or ctx's.
func (h *Host) Wake(ctx context.Context, id string) (server.Model, error) {
	h.mu.Lock()
	h.usedAt = time.Now()
	if m := h.resting; m != nil && answersTo(*m, id) {
		h.log.Info("a request wakes the model", "model", m.ID)
		h.aim(&target{model: *m, woken: true})
	}
	wait := h.want != nil && h.want.woken && answersTo(h.want.model, id)
	h.mu.Unlock()
	if wait {
		if err := h.Wait(ctx); ctx.Err() != nil {
			return server.Model{}, err
		}
	}
	return h.Acquire(id) // which says why, if it could not be loaded
}

// asleep is the model that rests, nil for none.
func (h *Host) asleep() *library.Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.resting
}

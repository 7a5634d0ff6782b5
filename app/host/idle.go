package host

// Idle models. A model that nobody uses is unloaded after a while. The next request that names it
// loads it again, and waits. Its prefix cache is on SSD meanwhile.

import (
	"context"
	"time"

	"headroom/app/library"
	"headroom/engine/server"
)

// unloadIdle unloads the running model if it has been idle for Options.IdleUnload.
func (h *Host) unloadIdle(now time.Time) {
	after := time.Duration(0)
	if h.options.IdleUnload != nil {
		after = h.options.IdleUnload()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if most := h.measures.IdleUnload; most > 0 && (after == 0 || after > most) {
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
		h.log.Info("unloading an idle model", "model", t.model.ID, "idle",
			now.Sub(h.usedAt).Round(time.Second))
		model := t.model
		h.setWanted(nil)
		h.idle = &model
	}
}

// Wake implements server.Models: it is Acquire, but loads a model again that was unloaded for being
// idle. The error is a Problem, or the error of ctx.
func (h *Host) Wake(ctx context.Context, id string) (server.Model, error) {
	h.mu.Lock()
	h.usedAt = time.Now()
	if m := h.idle; m != nil && answersTo(*m, id) {
		h.log.Info("loading a model again for a request", "model", m.ID)
		h.setWanted(&target{model: *m, requestsWait: true})
	}
	wait := h.want != nil && h.want.requestsWait && answersTo(h.want.model, id)
	h.mu.Unlock()
	if wait {
		if err := h.Wait(ctx); ctx.Err() != nil {
			return server.Model{}, err
		}
	}
	return h.Acquire(id) // whose error says why the model could not be loaded
}

// idleModel returns the model that was unloaded for being idle, nil for none.
func (h *Host) idleModel() *library.Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.idle
}

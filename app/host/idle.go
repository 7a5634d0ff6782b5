package host

// Idle models. A model that has had no requests for a while is unloaded. The next request for it
// loads it again and waits. Meanwhile its prefix cache is on SSD.

import (
	"context"
	"time"

	"headroom/app/library"
	"headroom/engine/server"
)

// idleState records when the running model was last used, and which model was unloaded for being
// idle.
type idleState struct {
	used     *target // the target that usedAt belongs to
	usedAt   time.Time
	unloaded *library.Model // the next request for it loads it again; nil: none. want is nil then.
}

// unloadIdle unloads the running model if it has been idle for Options.IdleUnload, or for the
// shorter time that the power measures allow.
func (h *Host) unloadIdle(now time.Time) {
	after := time.Duration(0)
	if h.options.IdleUnload != nil {
		after = h.options.IdleUnload()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if most := h.power.measures.IdleUnload; most > 0 && (after == 0 || after > most) {
		after = most
	}
	t := h.running()
	if t == nil {
		return
	}
	if stats := t.engine.Stats(); t != h.idle.used || stats.Running+stats.Waiting > 0 {
		h.idle.used, h.idle.usedAt = t, now
	}
	if idle := now.Sub(h.idle.usedAt); after > 0 && idle >= after {
		h.log.Info("unloading an idle model", "model", t.model.ID, "idle", idle.Round(time.Second))
		model := t.model
		h.setWanted(nil)
		h.idle.unloaded = &model
	}
}

// Wake implements server.Models. Like Acquire, it returns the running model if id names it, but
// first it loads a model that was unloaded for being idle. The error is a Problem, or the error of
// ctx.
func (h *Host) Wake(ctx context.Context, id string) (server.Model, error) {
	named := h.named(id)
	h.mu.Lock()
	h.idle.usedAt = time.Now()
	if m := h.idle.unloaded; m != nil && named(*m) {
		h.log.Info("loading a model again for a request", "model", m.ID)
		h.setWanted(&target{model: *m, requestsWait: true, reload: true})
	}
	wait := h.want != nil && h.want.requestsWait && named(h.want.model)
	h.mu.Unlock()
	if wait {
		if err := h.Wait(ctx); ctx.Err() != nil {
			return server.Model{}, err
		}
	}
	return h.Acquire(id) // its error says why the model could not be loaded
}

// unloadedModel returns the model that was unloaded for being idle, nil for none.
func (h *Host) unloadedModel() *library.Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.idle.unloaded
}

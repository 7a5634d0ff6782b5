package host

// Idle models. A model that has had no requests for a while is unloaded. The next request for it
// loads it again and waits. Meanwhile its prefix cache is on SSD.

import "time"

// unloadIdle unloads the models that have been idle for the time that the last request, the
// settings of the model, or Options.IdleUnload say, or for the shorter time that the power measures
// or the memory pressure allow. A pinned model stays.
func (h *Host) unloadIdle(now time.Time) {
	general, rules := h.generalIdleUnload(), h.rulesOfLoaded()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed { // a keepAlive may end later
		return
	}
	for _, i := range h.instances {
		t := i.running()
		if t == nil {
			continue
		}
		if t != i.observed || i.busy() {
			i.observed, i.usedAt = t, now
		}
		after := h.idleLimit(i, rules[i.model.ID], general)
		if idle := now.Sub(i.usedAt); after > 0 && idle >= after {
			h.log.Info("unloading an idle model", "model", i.model.ID, "idle",
				idle.Round(time.Second))
			h.setUnloaded(i, forIdleness)
		}
	}
	h.forget(now)
}

// generalIdleUnload returns the idle time that applies to models without their own; 0: never.
func (h *Host) generalIdleUnload() time.Duration {
	if h.options.IdleUnload == nil {
		return 0
	}
	return h.options.IdleUnload()
}

// idleLimit returns after which idle time a loaded model is unloaded, with all rules; 0 means
// never. The caller holds mu.
func (h *Host) idleLimit(i *instance, r ModelRules, general time.Duration) time.Duration {
	if i.pinned(r) {
		return 0
	}
	after := i.idleTime(r, general)
	for _, most := range []time.Duration{h.power.measures.IdleUnload, h.pressure.idleUnload()} {
		if most > 0 && (after == 0 || after > most) {
			after = most
		}
	}
	return after
}

// idleTime returns after which idle time the model is unloaded; 0 means never.
func (i *instance) idleTime(r ModelRules, general time.Duration) time.Duration {
	switch {
	case i.keepAlive != nil && *i.keepAlive >= 0:
		return max(*i.keepAlive, 1) // 0 would mean never
	case r.IdleUnload != nil:
		return *r.IdleUnload
	}
	return general
}

// pinned reports whether the model stays loaded until somebody stops it.
func (i *instance) pinned(r ModelRules) bool {
	return r.Pinned || i.keepAlive != nil && *i.keepAlive < 0
}

// rulesOfLoaded returns the rules of the models in memory, by ID. The caller does not hold mu.
func (h *Host) rulesOfLoaded() map[string]ModelRules {
	var ids []string
	h.mu.Lock()
	for _, i := range h.instances {
		if i.have != nil {
			ids = append(ids, i.model.ID)
		}
	}
	h.mu.Unlock()
	rules := make(map[string]ModelRules, len(ids))
	for _, id := range ids {
		if h.options.Model != nil {
			rules[id] = h.options.Model(id)
		}
	}
	return rules
}

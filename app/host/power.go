package host

// What the host does to save power on battery and to cool down a hot machine. Every sampleInterval,
// it reads the power state and asks app/power which measures to take. It applies them to engines
// and cache, and shows them in State.

import "headroom/app/power"

// PowerState is the power part of State.
type PowerState struct {
	power.State
	// Measures lists the measures in effect, the most noticeable first.
	Measures []power.Measure `json:"measures"`
}

// powerState is the last known power state, and the measures in effect.
type powerState struct {
	state    power.State
	measures power.Measures
}

// updatePower reads the power state and applies the measures for it.
func (h *Host) updatePower() {
	if h.options.Power == nil {
		return
	}
	state, policy := h.options.Power()
	measures := power.Decide(state, policy)
	h.mu.Lock()
	before := h.power
	h.power = powerState{state, measures}
	changed := measures != before.measures
	writesChanged := measures.ReduceWrites != before.measures.ReduceWrites
	if h.power != before {
		h.subscribers.notify()
	}
	if changed {
		h.log.Info("power", "source", state.Source, "thermal_state", state.ThermalState,
			"idle_unload", measures.IdleUnload, "reduce_writes", measures.ReduceWrites,
			"duty_cycle", measures.DutyCycle, "draft_gain", measures.DraftGain)
		for _, i := range h.instances {
			h.throttle(i.have)
		}
	}
	h.mu.Unlock()
	if store := h.cache.store(); writesChanged && store != nil {
		if err := h.limitCache(store.Limits()); err != nil {
			h.log.Warn("setting the cache's limits failed", "err", err)
		}
	}
}

// throttle sets the duty cycle of a loaded model's engine and the gain for which it decodes ahead,
// if the engine has them. It does nothing for nil. The caller holds mu.
func (h *Host) throttle(t *target) {
	if t == nil {
		return
	}
	share := h.power.measures.DutyCycle
	if share == 0 {
		share = 1
	}
	if e, ok := t.engine.(interface{ SetDutyCycle(share float64) }); ok {
		e.SetDutyCycle(share)
	}
	if e, ok := t.engine.(interface{ SetDraftGain(gain float64) }); ok {
		e.SetDraftGain(h.power.measures.DraftGain)
	}
}

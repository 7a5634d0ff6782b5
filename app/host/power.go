package host

// Measures on battery and under thermal pressure. app/power decides; the host asks with each
// sample, applies changes to engine and cache, and shows the measures in State.

import "headroom/app/power"

// PowerState is the power part of State.
type PowerState struct {
	power.State
	// Measures lists what is done, the most noticeable first.
	Measures []power.Measure `json:"measures"`
}

// throttled is an engine that can be throttled.
type throttled interface{ SetDutyCycle(share float64) }

// followPower reads the power state and applies the measures it asks for.
func (h *Host) followPower() {
	if h.options.Power == nil {
		return
	}
	state, policy := h.options.Power()
	measures := power.Decide(state, policy)
	h.mu.Lock()
	changed, disk := measures != h.measures, measures.ReduceWrites != h.measures.ReduceWrites
	if state != h.power || changed {
		h.power, h.measures = state, measures
		h.notify()
	}
	if changed {
		h.log.Info("power", "source", state.Source, "heat", state.Heat, "idle_unload",
			measures.IdleUnload, "reduce_writes", measures.ReduceWrites, "duty_cycle",
			measures.DutyCycle)
		h.throttleEngine()
	}
	h.mu.Unlock()
	if store := h.cache.store(); disk && store != nil {
		if err := h.limitCache(store.Limits()); err != nil {
			h.log.Warn("reducing disk writes failed", "err", err)
		}
	}
}

// throttleEngine passes the duty cycle on to the engine. The caller holds mu.
func (h *Host) throttleEngine() {
	if h.have == nil {
		return
	}
	share := h.measures.DutyCycle
	if share == 0 {
		share = 1
	}
	if e, ok := h.have.engine.(throttled); ok {
		e.SetDutyCycle(share)
	}
}

// powerState returns the power part of State. The caller holds mu.
func (h *Host) powerState() PowerState { return PowerState{h.power, h.measures.Words()} }

package host

// What is done on battery and when the computer is hot (app/power decides): looked at with each
// sample, told to the engine where it differs from before, and shown in the state.

import (
	"headroom/app/power"
)

// PowerState is State's part.
type PowerState struct {
	power.State
	// what is done, the one that is felt first; empty: nothing
	Measures []power.Measure `json:"measures"`
}

// eased is an engine that can work for a part of the time.
type eased interface{ SetDutyCycle(share float64) }

// followPower looks where the power comes from and how hot it is, and does what follows.
func (h *Host) followPower() {
	if h.options.Power == nil {
		return
	}
	state, policy := h.options.Power()
	measures := power.Decide(state, policy)
	h.mu.Lock()
	changed, disk := measures != h.measures, measures.SpareDisk != h.measures.SpareDisk
	if state != h.power || changed {
		h.power, h.measures = state, measures
		h.announce()
	}
	if changed {
		h.log.Info("power", "source", state.Source, "heat", state.Heat, "rest_after",
			measures.RestAfter, "spare_disk", measures.SpareDisk, "work_share", measures.WorkShare)
		h.easeEngine()
	}
	h.mu.Unlock()
	if store := h.cache.store(); disk && store != nil {
		if err := h.limitCache(store.Limits()); err != nil {
			h.log.Warn("sparing the disk", "err", err)
		}
	}
}

// easeEngine tells the engine for how much of the time it works. The caller holds mu.
func (h *Host) easeEngine() {
	if h.have == nil {
		return
	}
	share := h.measures.WorkShare
	if share == 0 {
		share = 1
	}
	if e, ok := h.have.engine.(eased); ok {
		e.SetDutyCycle(share)
	}
}

// powerState is what State says. The caller holds mu.
func (h *Host) powerState() PowerState { return PowerState{h.power, h.measures.Words()} }

package host

// What the host does while memory is short, by the level that the system reports (app/memory). The
// caches of the loaded models stop to grow. If the user allows it, they return memory to the
// system: conversations in memory go, the least recently used first, and those on SSD stay there.
// At the critical level, models that are idle are unloaded as well. State lists which models could
// be unloaded, and what each would free.

import (
	"cmp"
	"slices"
	"time"

	"headroom/app/memory"
)

// PressureState is the memory pressure, and what can be done and was done about it.
type PressureState struct {
	memory.Pressure
	// Advice lists the loaded models, the one to unload first at the front. It is empty unless
	// memory is short.
	Advice []UnloadAdvice `json:"advice"`
	// FreedBytes is what the caches have returned to the system since memory got short; 0: nothing.
	FreedBytes int64 `json:"freedBytes"`
}

// UnloadAdvice is a loaded model that could be unloaded.
type UnloadAdvice struct {
	Model      string `json:"model"`
	FreesBytes int64  `json:"freesBytes"` // what it holds now
	Busy       bool   `json:"busy"`       // requests use it
	Pinned     bool   `json:"pinned"`     // it was to stay loaded
	// LastUsedAtUnixMs is when its last request began or ended.
	LastUsedAtUnixMs int64 `json:"lastUsedAt"`
}

// relief is what the host does at a level.
type relief struct {
	keepShare  float64       // the share of the cached conversations that stays in memory
	pause      time.Duration // until more is returned, while the level stays
	idleUnload time.Duration // the longest time that an idle model stays loaded; 0: not limited
}

// reliefs has the levels at which memory is short.
var reliefs = map[memory.Level]relief{
	memory.Warning:  {keepShare: 0.5, pause: 30 * time.Second},
	memory.Critical: {pause: 10 * time.Second, idleUnload: time.Minute},
}

// pressureState is the last known level and what was done since memory got short. Host.mu guards
// it.
type pressureState struct {
	level      memory.Level
	allowed    bool // the user allows to return caches
	relieving  bool // relieve runs
	relievedAt time.Time
	freedBytes int64
}

// idleUnload returns the longest time that an idle model stays loaded; 0: not limited.
func (p *pressureState) idleUnload() time.Duration {
	if !p.allowed {
		return 0
	}
	return reliefs[p.level].idleUnload
}

// updatePressure reads the memory pressure and starts what is to be done about it.
func (h *Host) updatePressure(now time.Time) {
	allowed := h.options.FreeUnderPressure != nil && h.options.FreeUnderPressure()
	reading, err := h.options.Meter.Read()
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p, level := &h.pressure, reading.Pressure.Level
	p.allowed = allowed
	if level != p.level {
		if level.Short() || p.level.Short() {
			h.log.Info("memory pressure", "level", level, "swap_used",
				memory.Text(reading.Pressure.SwapUsedBytes))
		}
		if !p.level.Short() {
			p.freedBytes = 0
		}
		if level == memory.Critical {
			p.relievedAt = time.Time{}
		}
		p.level = level
		h.subscribers.notify()
	}
	r, short := reliefs[level]
	if !short || !allowed || p.relieving || h.closed || now.Sub(p.relievedAt) < r.pause {
		return
	}
	p.relieving, p.relievedAt = true, now
	// The answer of a model takes until the end of its step.
	h.background.processes.Go(func() { h.relieve(r, level) })
}

// relieve returns memory of the caches to the system.
func (h *Host) relieve(r relief, level memory.Level) {
	freed := int64(0)
	for _, e := range h.loadedEngines() {
		if s, ok := e.(interface{ Shrink(keepBytes int64) int64 }); ok {
			cached := engineBytes(e.Stats()).KVCached
			freed += s.Shrink(int64(r.keepShare * float64(cached)))
		}
	}
	if freed > 0 {
		h.log.Info("memory is short: caches were returned to the system", "level", level, "freed",
			memory.Text(freed))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pressure.relieving = false
	h.pressure.freedBytes += freed
	h.subscribers.notify()
}

// advice returns which of the loaded models could be unloaded: idle ones before busy ones, pinned
// ones last, and the least recently used first. The caller holds mu.
func (h *Host) advice(rules map[string]ModelRules) []UnloadAdvice {
	list := []UnloadAdvice{}
	for _, i := range h.instances {
		if t := i.running(); t != nil {
			list = append(list, UnloadAdvice{Model: i.model.ID, Busy: i.busy(),
				Pinned:           i.pinned(rules[i.model.ID]),
				FreesBytes:       engineBytes(t.engine.Stats()).Used(),
				LastUsedAtUnixMs: unixMs(i.usedAt)})
		}
	}
	slices.SortStableFunc(list, func(a, b UnloadAdvice) int {
		return cmp.Or(order(a.Pinned, b.Pinned), order(a.Busy, b.Busy),
			cmp.Compare(a.LastUsedAtUnixMs, b.LastUsedAtUnixMs))
	})
	return list
}

package worker

// The watchdog kills a process that hangs. While requests or calls wait for the process, it asks
// for the engine's heartbeat every few seconds; the listening goroutine of the process answers at
// once. A process hangs when it does not answer for three minutes, or when its engine makes no
// progress although work is due. The watchdog counts missed answers instead of time, so that a
// computer that was asleep misses only one.

import (
	"fmt"
	"time"

	"headroom/engine"
)

const (
	watchInterval = 5 * time.Second
	// maxMissed answers in a row are three minutes. An operator on the CPU, or a pass on a GPU,
	// takes seconds.
	maxMissed = 36
)

// watchdog counts missed heartbeats. The zero value has not asked yet.
type watchdog struct {
	asked  bool             // an answer is due by the next check
	last   engine.Heartbeat // received
	missed int              // answers in a row
}

// check takes the answer since the last check, nil for none, and whether requests wait for the
// worker. It reports whether to ask again, and whether the worker hangs.
func (h *watchdog) check(waiting bool, answer *engine.Heartbeat) (ask, hangs bool) {
	if !waiting {
		*h = watchdog{}
		return false, false
	}
	switch progressed := answer != nil && (!answer.Busy || answer.Count != h.last.Count); {
	case h.asked && !progressed:
		h.missed++
	case h.asked:
		h.missed = 0
	}
	if answer != nil {
		h.last = *answer
	}
	h.asked = true
	return true, h.missed >= maxMissed
}

// watch ends the process when it hangs. It returns when the process has ended.
func (m *Model) watch(ticks <-chan time.Time) {
	if ticks == nil {
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		ticks = tick.C
	}
	var h watchdog
	for {
		select {
		case <-m.died:
			return
		case <-ticks:
		}
		m.mu.Lock()
		waiting, answer := len(m.streams)+len(m.calls) > 0, m.pulse
		m.pulse = nil
		m.mu.Unlock()
		ask, hangs := h.check(waiting, answer)
		if hangs {
			m.process.end(fmt.Sprintf(
				"it made no progress for %.0f minutes although requests waited, and was killed",
				(maxMissed * watchInterval).Minutes()))
			return
		}
		if ask {
			m.tell(&toWorker{Pulse: &pulseQuestion{}})
		}
	}
}

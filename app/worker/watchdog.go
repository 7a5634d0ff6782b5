package worker

// The watchdog kills a worker that hangs. While requests or calls wait for the worker, it asks for
// the engine's heartbeat every few seconds. The goroutine that reads the worker's messages answers
// at once. A worker hangs if for three minutes it does not answer, or its engine makes no progress
// although it has work. The watchdog counts answers, not time: a computer that slept misses only
// one answer.

import (
	"fmt"
	"time"

	"headroom/engine"
)

const (
	watchInterval = 5 * time.Second
	// maxMissed intervals are three minutes. A pass, on a CPU or a GPU, takes seconds.
	maxMissed = 36
)

// watchdog counts missed heartbeats. The zero value has not asked yet.
type watchdog struct {
	asked  bool             // an answer is due by the next check
	last   engine.Heartbeat // the last answer
	missed int              // consecutive checks without an answer or without progress
}

// check takes the answer since the last check, nil for none, and whether requests wait for the
// worker. It reports whether to ask again, and whether the worker hangs.
func (w *watchdog) check(waiting bool, answer *engine.Heartbeat) (ask, hangs bool) {
	if !waiting {
		*w = watchdog{}
		return false, false
	}
	switch progressed := answer != nil && (!answer.Busy || answer.Count != w.last.Count); {
	case w.asked && !progressed:
		w.missed++
	case w.asked:
		w.missed = 0
	}
	if answer != nil {
		w.last = *answer
	}
	w.asked = true
	return true, w.missed >= maxMissed
}

// watch kills the process if it hangs. It returns when the process has ended.
func (m *Model) watch(ticks <-chan time.Time) {
	if ticks == nil {
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		ticks = tick.C
	}
	var w watchdog
	for {
		select {
		case <-m.died:
			return
		case <-ticks:
		}
		m.mu.Lock()
		waiting, answer := len(m.streams)+len(m.calls) > 0, m.heartbeat
		m.heartbeat = nil
		m.mu.Unlock()
		ask, hangs := w.check(waiting, answer)
		if hangs {
			m.process.killHung(fmt.Sprintf(
				"it made no progress for %.0f minutes although requests waited, and was killed",
				(maxMissed * watchInterval).Minutes()))
			return
		}
		if ask {
			m.send(&toWorker{Heartbeat: &heartbeatRequest{}})
		}
	}
}

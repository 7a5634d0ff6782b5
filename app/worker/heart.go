package worker

// Whether a process that lives gets on. While something waits for it, it is asked a few times a
// minute; its goroutine that listens answers at once, with how far the engine's has come
// (engine.Heartbeat). A process that does not answer for three minutes, or whose engine does nothing
// although something is due, is ended, and the rest is as after a crash. Missed answers are
// counted, not time: when the whole computer stood still, or we did, one has been missed.

import (
	"fmt"
	"time"

	"headroom/engine"
)

const (
	beatTime = 5 * time.Second
	// answers in a row: three minutes, where an operator on the CPU, or a pass on a GPU, takes
	// seconds
	mostMissed = 36
)

// heart is what is known of the beats. The zero value has asked nothing.
type heart struct {
	asked  bool             // for the answer that is due by the next beat
	last   engine.Heartbeat // that was heard
	missed int              // beats in a row
}

// beat takes what was answered since the last one, nil for nothing, and whether something waits for
// the worker. It says whether to ask again, and whether the worker hangs.
func (h *heart) beat(waiting bool, answer *engine.Heartbeat) (ask, hangs bool) {
	if !waiting {
		*h = heart{}
		return false, false
	}
	switch getsOn := answer != nil && (!answer.Busy || answer.Count != h.last.Count); {
	case h.asked && !getsOn:
		h.missed++
	case h.asked:
		h.missed = 0
	}
	if answer != nil {
		h.last = *answer
	}
	h.asked = true
	return true, h.missed >= mostMissed
}

// watch ends the process when it hangs. It returns when the process has ended.
func (m *Model) watch(beats <-chan time.Time) {
	if beats == nil {
		tick := time.NewTicker(beatTime)
		defer tick.Stop()
		beats = tick.C
	}
	var h heart
	for {
		select {
		case <-m.died:
			return
		case <-beats:
		}
		m.mu.Lock()
		waiting, answer := len(m.streams)+len(m.calls) > 0, m.pulse
		m.pulse = nil
		m.mu.Unlock()
		ask, hangs := h.beat(waiting, answer)
		if hangs {
			m.process.end(fmt.Sprintf(
				"it was ended, as it did nothing for %.0f minutes although requests waited",
				(mostMissed * beatTime).Minutes()))
			return
		}
		if ask {
			m.tell(&toWorker{Pulse: &pulseQuestion{}})
		}
	}
}

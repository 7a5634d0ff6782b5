package worker

// The watchdog kills a worker that hangs. While somebody waits for the worker, it asks for the
// engine's heartbeat every two seconds (health.go). A worker hangs if
//
//   - it does not answer although the system has stopped it (SIGSTOP), for stoppedPatience;
//   - it does not answer for another reason, for silentPatience: answering takes no computing;
//   - it answers, but its engine makes no progress although it has work, for 20 times as long as
//     the engine's step should take by the speed of its earlier steps, and at least a minute.
//
// On the CPU, an operator is progress, of which a step has hundreds: a step is killed only if one
// operator takes 20 times as long as the whole step should. On a GPU the step is the progress.
//
// The watchdog counts its own checks, not time. If the computer slept, if all processes were
// stopped or the clock was set, at most one check is missed.

import (
	"fmt"
	"time"

	"headroom/engine"
)

const (
	watchInterval = 2 * time.Second

	stoppedPatience = 10 * time.Second
	silentPatience  = time.Minute

	// stuckMargin times the expected duration of a step is the patience with a step, within these
	// bounds. stuckUnknown is the patience before a step was measured, such as the first one,
	// which reads the weights from disk.
	stuckMargin  = 20
	stuckLeast   = time.Minute
	stuckMost    = 30 * time.Minute
	stuckUnknown = 3 * time.Minute
)

// stuckPatience returns how long an engine with this heartbeat may make no progress.
func stuckPatience(h engine.Heartbeat) time.Duration {
	if h.StepTime <= 0 {
		return stuckUnknown
	}
	return min(max(stuckMargin*h.StepTime, stuckLeast), stuckMost)
}

// watchdog counts checks without an answer and without progress. The zero value has not asked yet.
type watchdog struct {
	asked     bool             // an answer is due by the next check
	last      engine.Heartbeat // the last answer
	silent    int              // consecutive checks without an answer
	fruitless int              // consecutive checks without progress
}

// check takes the answer since the last check, nil for none, and whether somebody waits for the
// worker. stopped reports whether the system has stopped the process. check returns why the worker
// is to be killed; "" if it does not hang.
func (w *watchdog) check(waiting bool, answer *engine.Heartbeat,
	stopped func() bool) (hangs string) {
	if !waiting {
		*w = watchdog{}
		return ""
	}
	progressed := answer != nil && (!answer.Busy || answer.Count != w.last.Count)
	switch {
	case !w.asked:
	case progressed:
		w.silent, w.fruitless = 0, 0
	case answer != nil:
		w.silent = 0
		w.fruitless++
	default:
		w.silent++
		w.fruitless++
	}
	if answer != nil {
		w.last = *answer
	}
	w.asked = true
	lasted := func(checks int) time.Duration { return time.Duration(checks) * watchInterval }
	switch {
	case lasted(w.silent) >= silentPatience:
		return fmt.Sprintf("it did not answer for %s although requests waited, and was ended",
			silentPatience)
	case lasted(w.silent) >= stoppedPatience && stopped():
		return fmt.Sprintf("somebody stopped it, and after %s it was ended, because requests "+
			"waited", stoppedPatience)
	case answer != nil && !progressed && lasted(w.fruitless) >= stuckPatience(*answer):
		return fmt.Sprintf("it made no progress for %s although requests waited, and was ended",
			stuckPatience(*answer))
	}
	return ""
}

// watch kills the process if it hangs. It returns when the process has ended.
func (m *Model) watch(ticks <-chan time.Time) {
	if ticks == nil {
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		ticks = tick.C
	}
	var w watchdog
	stopped := func() bool { return isStopped(m.process.pid) }
	for {
		select {
		case <-m.died:
			return
		case <-ticks:
		}
		m.mu.Lock()
		// A question of Health that nobody answers counts as somebody who waits.
		waiting := len(m.streams)+len(m.calls) > 0 || !m.health.asked.IsZero()
		answer := m.health.heartbeat
		m.health.heartbeat = nil
		if waiting {
			m.ask()
		}
		m.mu.Unlock()
		if hangs := w.check(waiting, answer, stopped); hangs != "" {
			// A process that answers has been stopped by nobody: its work is the cause.
			m.process.killHung(ending{hangs, answer != nil})
			return
		}
	}
}

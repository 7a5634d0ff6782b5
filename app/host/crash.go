package host

// A model may run in a process of its own (app/worker), which may end by itself: a driver's fault,
// or the system in want of memory. Its requests have ended then, with the reason. It is loaded
// again after a pause, and requests wait for that as they do for a model that rests; one that ends
// again and again is left alone.

import (
	"fmt"
	"slices"
	"time"

	"headroom/engine/problem"
)

// mortal is an Engine in a process of its own.
type mortal interface {
	Engine
	PID() int
	Died() <-chan struct{} // closed when the process has ended, by Close too
	Cause() error          // why it ended by itself, a Problem
}

const (
	crashTime   = 5 * time.Minute // that a crash counts, and is shown
	mostCrashes = 3               // in that time; then the model is not loaded again
	firstPause  = 500 * time.Millisecond
)

// crashes are those of one model, oldest first.
type crashes struct {
	at    []time.Time
	model string
	cause error // of the last
}

// add counts one more, and forgets those of long ago.
func (c *crashes) add(now time.Time, model string, cause error) {
	c.at = slices.DeleteFunc(c.at, func(at time.Time) bool { return now.Sub(at) >= crashTime })
	c.at = append(c.at, now)
	c.model, c.cause = model, cause
}

// pause is how long to wait before the next attempt: first, and twice as long each time.
func (c *crashes) pause(first time.Duration) time.Duration { return first << (len(c.at) - 1) }

// tooMany is a Problem when it is time to give up, nil otherwise.
func (c *crashes) tooMany() error {
	if len(c.at) < mostCrashes {
		return nil
	}
	return problem.New(problem.Crashed,
		fmt.Sprintf("%s ended unexpectedly %d times in %.0f minutes and is not loaded again",
			c.model, len(c.at), crashTime.Minutes()),
		problem.From(c.cause).Why,
		"Start it once more, with a shorter context or on another device if that does not help, "+
			"and report it with the log.")
}

// notice is a Problem that says what happened lately, nil for nothing.
func (c *crashes) notice(now time.Time) error {
	if len(c.at) == 0 || len(c.at) >= mostCrashes || now.Sub(c.at[len(c.at)-1]) >= crashTime {
		return nil // or State's error says it
	}
	return problem.New(problem.Crashed, c.model+" ended unexpectedly and is loaded again",
		problem.From(c.cause).Why, "")
}

// attend waits for the end of a loaded model's process, if it has one. The caller holds mu.
func (h *Host) attend(t *target) {
	m, ok := t.engine.(mortal)
	if !ok {
		return
	}
	h.options.Meter.Count(m.PID())
	h.attending.Go(func() {
		<-m.Died()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.have == t && h.want == t { // or it is to go anyway
			h.reload(t, m.Cause())
		}
	})
}

// FollowLogLevel has the running model's process log what this one's log takes now.
func (h *Host) FollowLogLevel() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.have == nil {
		return // what is being loaded looks when it is
	}
	if e, ok := h.have.engine.(interface{ FollowLogLevel() }); ok {
		e.FollowLogLevel()
	}
}

// failed takes down that the wanted model could not be loaded. The caller holds mu.
func (h *Host) failed(t *target, err error) {
	if t.reload && problem.From(err).Code == problem.Crashed {
		h.reload(t, err)
		return
	}
	h.failure = err
}

// reload has a model loaded again whose process has ended, unless it has too often. The caller
// holds mu.
func (h *Host) reload(t *target, cause error) {
	h.crashes.add(time.Now(), t.model.ID, cause)
	next := &target{model: t.model, woken: true, reload: true,
		pause: h.crashes.pause(h.options.ReloadPause)}
	h.aim(next)
	if h.failure = h.crashes.tooMany(); h.failure != nil {
		h.log.Error("a model's process ended too often: it is not loaded again", "model",
			t.model.ID, "err", cause)
		return
	}
	h.log.Warn("a model's process ended: it is loaded again", "model", t.model.ID, "in", next.pause,
		"err", cause)
}

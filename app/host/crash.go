package host

// Models whose process crashed. A model runs in a process of its own (app/worker), which a fault in
// a GPU driver or the system's out-of-memory killer can end. Its requests fail with the reason. The
// host loads the model again after a pause, and new requests wait for it. After maxCrashes within
// crashTime the host gives up.

import (
	"fmt"
	"slices"
	"time"

	"headroom/engine/problem"
)

// processEngine is an Engine that runs in a process of its own.
type processEngine interface {
	Engine
	PID() int
	Died() <-chan struct{} // closed when the process has ended, also by Close
	Cause() error          // why the process crashed, a Problem
}

const (
	crashTime  = 5 * time.Minute // how long a crash counts and is shown
	maxCrashes = 3               // within crashTime, before the host gives up
	firstPause = 500 * time.Millisecond
)

// crashes records the recent crashes of one model, oldest first.
type crashes struct {
	at    []time.Time
	model string
	cause error // of the last crash
}

// add records a crash and drops those older than crashTime.
func (c *crashes) add(now time.Time, model string, cause error) {
	c.at = slices.DeleteFunc(c.at, func(at time.Time) bool { return now.Sub(at) >= crashTime })
	c.at = append(c.at, now)
	c.model, c.cause = model, cause
}

// pause returns how long to wait before loading again. After one crash, that is the time first; it
// doubles with each further crash.
func (c *crashes) pause(first time.Duration) time.Duration { return first << (len(c.at) - 1) }

// tooMany returns a Problem if the model crashed too often to load it again, nil otherwise.
func (c *crashes) tooMany() error {
	if len(c.at) < maxCrashes {
		return nil
	}
	return problem.New(problem.Crashed,
		fmt.Sprintf("%s crashed %d times in %.0f minutes and is not loaded again",
			c.model, len(c.at), crashTime.Minutes()),
		problem.From(c.cause).Why,
		"Start it again. If that does not help, try a shorter context or another device, and "+
			"report it with the log.")
}

// notice returns a Problem that reports a recent crash, or nil.
func (c *crashes) notice(now time.Time) error {
	if len(c.at) == 0 || len(c.at) >= maxCrashes || now.Sub(c.at[len(c.at)-1]) >= crashTime {
		return nil // there was none, or State's error reports it
	}
	return problem.New(problem.Crashed, c.model+" crashed and is being loaded again",
		problem.From(c.cause).Why, "")
}

// watchProcess reloads the model when its process crashes. It does nothing for an engine without a
// process. The caller holds mu.
func (h *Host) watchProcess(t *target) {
	m, ok := t.engine.(processEngine)
	if !ok {
		return
	}
	h.options.Meter.Count(m.PID())
	h.background.processes.Go(func() {
		<-m.Died()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.have == t && h.want == t { // else it is being unloaded
			h.reload(t, m.Cause())
		}
	})
}

// FollowLogLevel applies the current log level to the worker process of the running model.
func (h *Host) FollowLogLevel() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.have == nil {
		return // a worker process that starts later gets the current level
	}
	if e, ok := h.have.engine.(interface{ FollowLogLevel() }); ok {
		e.FollowLogLevel()
	}
}

// loadFailed records that the wanted model could not be loaded. The caller holds mu.
func (h *Host) loadFailed(t *target, err error) {
	if t.reload && problem.From(err).Code == problem.Crashed {
		h.reload(t, err)
		return
	}
	h.failure = err
}

// reload starts loading a crashed model again, unless it crashed too often. The caller holds mu.
func (h *Host) reload(t *target, cause error) {
	h.crashes.add(time.Now(), t.model.ID, cause)
	next := &target{model: t.model, requestsWait: true, reload: true,
		pause: h.crashes.pause(h.options.ReloadPause)}
	h.setWanted(next)
	if h.failure = h.crashes.tooMany(); h.failure != nil {
		h.log.Error("a model crashed too often and is not loaded again", "model",
			t.model.ID, "err", cause)
		return
	}
	h.log.Warn("a model crashed and is being loaded again", "model", t.model.ID, "in", next.pause,
		"err", cause)
}

package host

// Models whose process crashed. A model runs in a process of its own (app/worker), which a fault in
// a GPU driver or the system's out-of-memory killer can end. Its requests fail with the reason, or
// move to the next process. The host loads the model again after a pause (retry.go), and new
// requests wait for it.

import (
	"cmp"
	"fmt"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// processEngine is an Engine that runs in a process of its own.
type processEngine interface {
	Engine
	PID() int
	Died() <-chan struct{} // closed when the process has ended, also by Close
	Cause() error          // why the process crashed, a Problem
	// Health returns a Problem while the process does not answer, nil otherwise. It waits up to
	// patience for an answer.
	Health(patience time.Duration) error
	// CachedPrefixesWithin is CachedPrefixes with a limit of its time. If the process needs longer,
	// current is false, and list is that of an earlier call.
	CachedPrefixesWithin(most time.Duration) (list []engine.CachedPrefix, current bool)
	// EndWithin makes the process end within that time, whatever it does. Close must follow.
	EndWithin(most time.Duration)
}

const (
	// healthyTime is how long a model must run before its earlier crashes no longer count.
	healthyTime = time.Minute
	noticeTime  = 5 * time.Minute // how long a crash is shown
)

// crashes records the crashes of one model.
type crashes struct {
	inARow int // crashes without healthyTime between them
	last   time.Time
	model  string
	cause  error // of the last crash
}

// add records a crash of a model that had run for the time lived.
func (c *crashes) add(now time.Time, lived time.Duration, model string, cause error) {
	if lived >= healthyTime {
		c.inARow = 0
	}
	c.inARow++
	c.last, c.model, c.cause = now, model, cause
}

// notice returns a Problem that reports a recent crash, or nil.
func (c *crashes) notice(now time.Time) error {
	if c.inARow == 0 || now.Sub(c.last) >= noticeTime {
		return nil
	}
	return problem.New(problem.Crashed, c.model+" crashed and is being loaded again",
		problem.From(c.cause).Why, "")
}

// problem returns the Problem of a model that crashes again and again.
func (c *crashes) problem() error {
	return problem.New(problem.Crashed, fmt.Sprintf("%s crashed %d times in a row", c.model,
		c.inARow), problem.From(c.cause).Why, "")
}

// Crashes returns how often a model's process has crashed since the host started.
func (h *Host) Crashes() int64 { return h.crashCount.Load() }

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
		if t.of.running() == t { // else it is being unloaded
			h.crashed(t, h.options.now().Sub(t.loadedAt), m.Cause())
		}
	})
}

// crashed loads a crashed model again: soon, or after a longer pause if it crashes again and again.
// lived is how long the model had run; 0: it was being loaded. The caller holds mu.
func (h *Host) crashed(t *target, lived time.Duration, cause error) {
	h.crashCount.Add(1)
	i := t.of
	i.crashes.add(time.Now(), lived, i.model.ID, cause)
	pause := crashPause(h.options.ReloadPause, i.crashes.inARow)
	h.log.Warn("a model crashed and is loaded again", "model", i.model.ID, "in", pause,
		"crashes in a row", i.crashes.inARow, "err", cause)
	h.retry(t, i.crashes.problem(), pause)
}

// Health returns a Problem while the process of a loaded model does not answer. It waits up to
// patience for all answers. It returns nil without a model, or for models in this process.
func (h *Host) Health(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for _, t := range h.runningTargets() {
		if m, ok := t.engine.(processEngine); ok {
			if err := m.Health(max(time.Until(deadline), 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// notice returns the Problem that State shows beside the status of a model; nil for none. The
// caller holds mu.
func (h *Host) notice(i *instance) error {
	if i == nil {
		return h.deviceWarning
	}
	var silent error
	if t := i.running(); t != nil {
		if m, ok := t.engine.(processEngine); ok {
			silent = m.Health(0)
		}
	}
	if i.failure != nil {
		return h.deviceWarning // State's error reports the crash
	}
	return cmp.Or(silent, i.crashes.notice(time.Now()), h.deviceWarning)
}

// FollowLogLevel applies the current log level to the worker processes of the loaded models. A
// worker process that starts later gets the current level.
func (h *Host) FollowLogLevel() {
	for _, e := range h.loadedEngines() {
		if e, ok := e.(interface{ FollowLogLevel() }); ok {
			e.FollowLogLevel()
		}
	}
}

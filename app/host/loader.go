package host

// The loader: the goroutine that loads and unloads models. Other goroutines set Host.want and wake
// it. It compares Host.want with Host.have and takes one step at a time, so two models are never in
// memory together. If a model is no longer wanted while it loads, the load is cancelled, or the
// next step unloads the model.

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/problem"
)

// runLoader runs until ctx ends. Whenever it is woken, it takes steps until the loaded model is the
// wanted one.
func (h *Host) runLoader(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			h.unload()
			return
		case <-h.background.wakeLoader:
		}
		for h.step() {
		}
	}
}

// step takes the next step and reports whether there may be more to do. The order of steps is
// fixed: unload a model that is not wanted, run maintenance, load the wanted model.
func (h *Host) step() bool {
	h.mu.Lock()
	want, have, failed := h.want, h.have, h.failure != nil
	if work := h.maintenance; work != nil && have == nil {
		h.maintenance = nil
		h.mu.Unlock()
		work()
		return true
	}
	if have == want || want != nil && failed && have == nil {
		h.settled.Broadcast()
		h.mu.Unlock()
		return false
	}
	h.opening = have == nil
	h.mu.Unlock()
	if have != nil {
		h.unload()
		return true
	}
	e, err := h.open(want)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening = false
	if err == nil {
		want.engine, want.progress, want.loadedAt, want.attempts = e, 1, time.Now(), 0
		h.have = want // if it is no longer wanted, the next step unloads it
		h.watchProcess(want)
		h.throttleEngine()
	} else if h.want == want {
		h.loadFailed(want, err)
	}
	h.subscribers.notify()
	return true
}

// unload closes the loaded model.
func (h *Host) unload() {
	h.mu.Lock()
	t, closed := h.have, h.closed
	h.mu.Unlock()
	if t == nil {
		return
	}
	if closed {
		t.endSoon() // it may have been loaded just now
	}
	if err := t.engine.Close(); err != nil {
		h.log.Error("unloading a model failed", "model", t.model.ID, "err", err)
	}
	h.log.Info("model unloaded", "model", t.model.ID)
	if m, ok := t.engine.(processEngine); ok {
		h.options.Meter.Forget(m.PID())
	}
	h.mu.Lock()
	h.have = nil
	h.mu.Unlock()
	// Return garbage to the system before the next model's need is compared with available memory.
	debug.FreeOSMemory()
	h.mu.Lock()
	h.subscribers.notify()
	h.mu.Unlock()
}

// open loads a model. A panic becomes an error: a model that breaks the loader must not end the
// app.
func (h *Host) open(t *target) (e Engine, err error) {
	defer func() {
		if r := recover(); r != nil {
			h.log.Error("loading a model panicked", "model", t.model.ID, "panic", fmt.Sprint(r),
				"stack", string(debug.Stack()))
			e, err = nil, problem.New(problem.Internal, "The model could not be loaded",
				fmt.Sprint(r), "Please report it with the log.")
		}
	}()
	select {
	case <-time.After(t.pause):
	case <-t.context.Done():
		return nil, problem.From(t.context.Err())
	}
	var o engine.Options
	if h.options.Engine != nil {
		o = h.options.Engine(t.model.ID)
	}
	if err := h.chooseDevice(t, &o); err != nil {
		return nil, problem.From(err)
	}
	o.ModelName, o.History, o.BlockStore = t.model.ID, h.computed, h.cache.store()
	h.mu.Lock()
	t.stores = o.BlockStore != nil
	h.mu.Unlock()
	if reading, err := h.options.Meter.Fresh(); err == nil {
		// No model is loaded at this point.
		o.AvailableBytes = reading.HeadroomBytes(memory.EngineBytes{})
	}
	o.Progress = func(done float64) { h.progress(t, done) }
	h.log.Info("loading", "model", t.model.ID)
	e, err = h.options.Open(t.context, t.model.Source, o)
	switch {
	case err == nil:
		i := e.Info()
		h.log.Info("model loaded", "model", t.model.ID, "device", i.Device, "context_tokens",
			i.ContextTokens, "kv_format", i.KVFormat, "state_format", i.StateFormat)
		return e, nil
	case errors.Is(err, context.Canceled):
		h.log.Info("loading cancelled", "model", t.model.ID)
	default:
		h.log.Info("loading failed", "model", t.model.ID, "err", err) // State has the error
	}
	return nil, problem.From(err)
}

// progressStep is the least progress that subscribers are notified of.
const progressStep = 0.01

// progress records how much of the model is loaded, in [0, 1].
func (h *Host) progress(t *target, done float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if done >= t.progress+progressStep || done >= 1 && t.progress < 1 {
		t.progress = min(done, 1)
		if h.want == t {
			h.subscribers.notify()
		}
	}
}

package host

// The loader: the goroutine that loads and unloads models. Other goroutines change what is wanted
// of the instances, and wake it. It compares what is wanted with what is loaded and takes one step
// at a time, so that two models are never loaded at once, and each load knows how much memory the
// others have left. If a model is no longer wanted while it loads, the load is cancelled, or the
// next step unloads the model.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine/problem"
)

// runLoader runs until ctx ends. Whenever it is woken, it takes steps until the loaded models are
// the wanted ones. While a model waits for the memory of others, it looks at them every idlePoll.
func (h *Host) runLoader(ctx context.Context) {
	for waits := false; ; {
		var poll <-chan time.Time
		if waits {
			poll = time.After(idlePoll)
		}
		select {
		case <-ctx.Done():
			for more := true; more; {
				more = h.unloadUnwanted()
			}
			return
		case <-h.background.wakeLoader:
		case <-poll:
		}
		for more := true; more; {
			more, waits = h.step()
		}
		h.mu.Lock()
		h.passes++
		h.stepped.Broadcast()
		h.mu.Unlock()
	}
}

// step takes the next step and reports whether there may be more to do. The order of steps is
// fixed: unload a model that is not wanted, run maintenance, load the next wanted model or unload
// another to make room for it. If a model has to wait for the memory of others, waits is true.
func (h *Host) step() (more, waits bool) {
	if h.unloadUnwanted() {
		return true, false
	}
	h.mu.Lock()
	defer h.stepped.Broadcast()
	if work := h.maintenance; work != nil { // no model is loaded: see schedule
		h.maintenance = nil
		h.mu.Unlock()
		work()
		return true, false
	}
	queue := h.queue()
	if len(queue) == 0 {
		h.setDraining(nil)
		h.forget(h.options.now())
		h.mu.Unlock()
		return false, false
	}
	h.mu.Unlock()
	for n, w := range queue {
		kept, ready := h.makeRoom(w.of, w, queue[:n])
		if ready {
			h.load(w.of, w, kept)
			return true, false
		}
		if n == 0 {
			h.mu.Lock()
			waits = w.of.want == w && w.of.failure == nil && h.unwanted() == nil
			h.mu.Unlock()
			if !waits {
				return true, false
			}
		}
	}
	return false, true
}

// queue returns the targets that are to be loaded: the one that a person started last, then others
// of persons, then those of requests, of batch requests last. Of these, the one that has been
// wanted for longest is first. The caller holds mu.
func (h *Host) queue() (list []*target) {
	for _, i := range h.instances {
		if i.want != nil && i.have == nil && i.failure == nil {
			list = append(list, i.want)
		}
	}
	slices.SortStableFunc(list, func(a, b *target) int {
		return cmp.Or(order(a.of != h.chosen, b.of != h.chosen), order(!a.byPerson, !b.byPerson),
			order(a.patient(), b.patient()), a.since.Compare(b.since))
	})
	return list
}

// unwanted returns an instance whose loaded model is not wanted, nil for none. The caller holds mu.
func (h *Host) unwanted() *instance {
	for _, i := range h.instances {
		if i.have != nil && i.have != i.want {
			return i
		}
	}
	return nil
}

// unloadUnwanted unloads a model that is not wanted, and reports whether there was one.
func (h *Host) unloadUnwanted() bool {
	h.mu.Lock()
	i := h.unwanted()
	h.mu.Unlock()
	if i != nil {
		h.unload(i)
	}
	return i != nil
}

// load loads the wanted model of an instance. It leaves keptBytes of memory free.
func (h *Host) load(i *instance, want *target, keptBytes int64) {
	h.mu.Lock()
	if i.want != want {
		h.mu.Unlock()
		return
	}
	i.opening = true
	h.mu.Unlock()
	h.limitGrowth() // of the models beside it: the new one needs memory
	e, err := h.open(want, keptBytes)
	defer h.limitGrowth()
	h.mu.Lock()
	defer h.mu.Unlock()
	i.opening = false
	if err == nil {
		want.engine, want.progress, want.loadedAt, want.attempts = e, 1, h.options.now(), 0
		i.have = want // if it is no longer wanted, the next step unloads it
		i.ran, i.context, i.keepAlive = true, e.Info().ContextTokens, nil
		h.anyRan = true
		h.memoryChanged()
		h.watchProcess(want)
		h.throttle(want)
	} else if i.want == want {
		h.loadFailed(want, err)
	}
	h.subscribers.notify()
}

// unload closes the loaded model of an instance.
func (h *Host) unload(i *instance) {
	h.mu.Lock()
	t, closed := i.have, h.closed
	h.mu.Unlock()
	if closed {
		t.endSoon() // it may have been loaded just now
	}
	if err := t.engine.Close(); err != nil {
		h.log.Error("unloading a model failed", "model", t.model.ID, "err", err)
	}
	totals := t.engine.Stats()
	h.log.Info("model unloaded", "model", t.model.ID)
	if m, ok := t.engine.(processEngine); ok {
		h.options.Meter.Forget(m.PID())
	}
	h.mu.Lock()
	i.have, i.draining = nil, false
	h.reuse.add(totals)
	h.memoryChanged()
	h.mu.Unlock()
	// Return garbage to the system before the next model's need is compared with available memory.
	debug.FreeOSMemory()
	h.mu.Lock()
	h.subscribers.notify()
	h.stepped.Broadcast()
	h.mu.Unlock()
}

// memoryChanged makes the loader read the memory anew for the models that wait for it. The caller
// holds mu.
func (h *Host) memoryChanged() {
	for _, i := range h.instances {
		if i.want != nil {
			i.want.waits = false
		}
	}
}

// open loads a model. A panic becomes an error: a model that breaks the loader must not end the
// app. keptBytes is the memory that the model leaves free.
func (h *Host) open(t *target, keptBytes int64) (e Engine, err error) {
	m := t.model
	defer func() {
		if r := recover(); r != nil {
			h.log.Error("loading a model panicked", "model", m.ID, "panic", fmt.Sprint(r),
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
	o := h.adaptedOptions(m.ID)
	if err := h.chooseDevice(t, &o); err != nil {
		return nil, problem.From(err)
	}
	o.ModelName, o.History, o.BlockStore = m.ID, h.computed, h.cache.store()
	h.mu.Lock()
	t.stores = o.BlockStore != nil
	h.mu.Unlock()
	used := h.usedBytes()
	if reading, err := h.options.Meter.Fresh(); err == nil {
		o.AvailableBytes = max(reading.HeadroomBytes(used, memory.EngineBytes{})-keptBytes, 1)
	}
	o.Progress = func(done float64) { h.progress(t, done) }
	h.log.Info("loading", "model", m.ID)
	h.noteCopies(m)
	begun := h.options.now()
	e, err = h.options.Open(t.context, m.Source, o)
	t.loadTime = h.options.now().Sub(begun)
	switch {
	case err == nil:
		i := e.Info()
		h.log.Info("model loaded", "model", m.ID, "device", i.Device, "context_tokens",
			i.ContextTokens, "kv_format", i.KVFormat, "state_format", i.StateFormat,
			"drafter", i.Drafter, "draft_model", i.DraftModel, "lookups", i.Lookups)
		if o.ContextTokens > i.ContextTokens {
			h.log.Warn("the context is shorter than asked for, because the model has no longer one",
				"model", m.ID, "asked_tokens", o.ContextTokens, "context_tokens", i.ContextTokens)
		}
		return e, nil
	case errors.Is(err, context.Canceled):
		h.log.Info("loading cancelled", "model", m.ID)
	default:
		h.log.Info("loading failed", "model", m.ID, "err", err) // State has the error
	}
	return nil, problem.From(err)
}

// noteCopies logs which settings of a model's copies have no effect.
func (h *Host) noteCopies(m library.Model) {
	for _, id := range m.Copies {
		if h.options.Configured != nil && h.options.Configured(id) {
			h.log.Warn("the settings of a copy of this model have no effect, but for its aliases",
				"model", m.ID, "copy", id, "fix", "move them to "+m.ID+" in the settings")
		}
	}
}

// progressStep is the least progress that subscribers are notified of.
const progressStep = 0.01

// progress records how much of the model is loaded, in [0, 1].
func (h *Host) progress(t *target, done float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if done >= t.progress+progressStep || done >= 1 && t.progress < 1 {
		t.progress = min(done, 1)
		if t.of.want == t {
			h.subscribers.notify()
		}
	}
}

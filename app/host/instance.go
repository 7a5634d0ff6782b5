package host

// Instances: the models that are wanted, loading, loaded, failed or unloaded, and which of them is
// in front.

import (
	"context"
	"slices"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
)

// instance is a model that is or was wanted. There is one for each model. Host.mu guards its
// fields.
type instance struct {
	model   library.Model
	want    *target // nil: the model is not wanted
	have    *target // loaded, or being unloaded; its engine is not nil
	opening bool    // the model is being loaded, perhaps for a target that is no longer wanted
	failure error   // why the wanted model could not be loaded
	crashes crashes

	// unloaded says why a model was unloaded that nobody has stopped. The next request for it loads
	// it again. want is nil then.
	unloaded   reason
	unloadedAt time.Time
	ran        bool      // it was loaded at least once
	context    int       // the context that it was loaded with, in tokens; 0: not yet loaded
	failedAt   time.Time // when failure was set

	// vanished means that the model's folder is no longer there. A loaded model stays.
	vanished bool

	need *loadNeed // the memory that loading it needs; nil: not known

	uses    int       // requests that use the engine; see wake.go
	waiting int       // requests that wait until the model is loaded
	patient int       // of these, the ones of low priority
	usedAt  time.Time // when it was last used, or wanted for the first time
	// observed is the target for which unloadIdle has begun to measure the idle time.
	observed *target
	// keepAlive is how long the last request that has said so wants the model to stay loaded; nil:
	// as long as the settings say. A negative time means until it is stopped, and 0 until its
	// requests have ended.
	keepAlive *time.Duration
	// keepAliveEnds unloads the model when that time is over; nil: there was none.
	keepAliveEnds *time.Timer
	// draining means that new requests wait, because the model is to be unloaded for another one as
	// soon as its running requests have ended.
	draining bool
}

// reason says why a model was unloaded although nobody has stopped it.
type reason uint8

const (
	notUnloaded reason = iota
	forIdleness        // it had no requests for a while
	forRoom            // another model needed its memory
)

// target is one attempt to run a model. Starting the same model twice makes two targets.
type target struct {
	of           *instance
	model        library.Model // as it was when it was wanted; of.model may be newer
	engine       Engine        // nil until loaded
	byPerson     bool          // a person started it: it goes before the models of requests
	since        time.Time     // since when it is wanted
	was          reason        // instance.unloaded before it was wanted
	requestsWait bool          // requests wait until it is loaded
	reload       bool          // it is loaded again by itself: tried again after any failure
	attempts     int           // failures of loading in a row, other than crashes
	pause        time.Duration // before loading
	waits        bool          // for the memory of other models; see memoryChanged
	beside       bool          // it was loaded while models that come before it waited
	retryAt      time.Time     // when loading is tried again after a failure; zero: it is not
	loadedAt     time.Time
	loadTime     time.Duration // how long loading took
	stores       bool          // it was loaded with the cache on SSD; guarded by Host.mu
	progress     float64       // [0, 1] while loading; guarded by Host.mu
	context      context.Context
	cancel       context.CancelFunc
}

// patient reports whether only requests of low priority wait for the model.
func (t *target) patient() bool {
	return !t.byPerson && t.of.waiting > 0 && t.of.patient == t.of.waiting
}

// is reports whether the instance is of this model, in this folder.
func (i *instance) is(m library.Model) bool { return i.model.ID == m.ID && i.model.Dir == m.Dir }

// missing reports whether nobody can use the model any more.
func (i *instance) missing() bool { return i.vanished && i.have == nil && !i.opening }

// running returns the target that serves requests, nil for none.
func (i *instance) running() *target {
	if i.have != nil && i.have == i.want {
		return i.have
	}
	return nil
}

// contextTokens returns the context of the model when it is loaded.
func (i *instance) contextTokens(roomBytes int64) int {
	if i.context > 0 {
		return i.context
	}
	return needOf(i.model.Description, nil, roomBytes, 0).ContextTokens
}

// busy reports whether requests use the model.
func (i *instance) busy() bool {
	if i.uses > 0 {
		return true
	}
	if i.have == nil {
		return false
	}
	s := i.have.engine.Stats()
	return s.Running+s.Waiting > 0
}

// gone reports whether nothing is left to do for the instance, so that it can be forgotten.
func (i *instance) gone() bool {
	return i.want == nil && i.have == nil && !i.opening && i.waiting == 0 && i.uses == 0 &&
		i.unloaded == notUnloaded
}

// instanceOf returns the instance of a model. If there is none, it adds one. The caller holds mu.
func (h *Host) instanceOf(m library.Model) *instance {
	for _, i := range h.instances {
		if i.is(m) {
			i.model = m
			return i
		}
	}
	i := &instance{model: m, usedAt: h.options.now()}
	h.instances = append(h.instances, i)
	return i
}

// forget drops the instances that are gone, and models that were unloaded long ago. The caller
// holds mu.
func (h *Host) forget(now time.Time) {
	h.instances = slices.DeleteFunc(h.instances, func(i *instance) bool {
		if i.unloaded != notUnloaded && i != h.chosen && now.Sub(i.unloadedAt) >= rememberTime {
			i.unloaded = notUnloaded
		}
		return i.gone() && i != h.chosen
	})
}

// rememberTime is how long a model that was unloaded by itself is listed, and memory is kept for
// its return; see room.go.
const rememberTime = 30 * time.Minute

// front returns the instance that State.Engine describes: the one that a person started last. If
// that was unloaded by itself, or there is none, it returns the one that was used last, loaded ones
// first. It returns nil for none. The caller holds mu.
func (h *Host) front() *instance {
	if h.chosen != nil && h.chosen.want != nil {
		return h.chosen
	}
	var best *instance
	if h.chosen != nil && h.chosen.unloaded != notUnloaded {
		best = h.chosen
	}
	for _, i := range h.instances {
		switch {
		case i.want == nil && i.unloaded == notUnloaded: // it was stopped
		case best == nil, best.want == nil && i.want != nil,
			best != h.chosen && (best.want == nil) == (i.want == nil) && later(i, best):
			best = i
		}
	}
	return best
}

func later(a, b *instance) bool { return a.usedAt.After(b.usedAt) }

// setWanted changes what is wanted of an instance; nil for nothing. The caller holds mu.
func (h *Host) setWanted(i *instance, t *target) {
	if i.want != nil {
		i.want.cancel()
	}
	if t != nil {
		t.of, t.model, t.since, t.was = i, i.model, h.options.now(), i.unloaded
		t.context, t.cancel = context.WithCancel(context.Background())
		i.unloaded, i.need, i.vanished = notUnloaded, nil, false
	}
	i.want, i.failure = t, nil
	h.wakeLoader()
	h.subscribers.notify()
}

// setUnloaded unloads a model that the next request loads again. The caller holds mu.
func (h *Host) setUnloaded(i *instance, why reason) {
	h.setWanted(i, nil)
	i.unloaded, i.unloadedAt, i.draining, i.keepAlive = why, h.options.now(), false, nil
	if i.waiting > 0 {
		h.setWanted(i, &target{requestsWait: true})
	}
}

// frontTarget returns the running target of the instance in front, nil for none.
func (h *Host) frontTarget() *target {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.front(); i != nil {
		return i.running()
	}
	return nil
}

// runningTargets returns the targets that serve requests, that of the instance in front first.
func (h *Host) runningTargets() (list []*target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	front := h.front()
	for _, i := range h.instances {
		if t := i.running(); t != nil {
			if list = append(list, t); i == front {
				list[0], list[len(list)-1] = t, list[0]
			}
		}
	}
	return list
}

// loadedEngines returns the engines in memory, also those that are being unloaded.
func (h *Host) loadedEngines() (list []Engine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.instances {
		if i.have != nil {
			list = append(list, i.have.engine)
		}
	}
	return list
}

// usedBytes returns the memory of all engines.
func (h *Host) usedBytes() (sum memory.EngineBytes) {
	for _, e := range h.loadedEngines() {
		sum = sum.Add(engineBytes(e.Stats()))
	}
	return sum
}

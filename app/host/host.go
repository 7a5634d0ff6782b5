// Package host starts and stops models for the app and reports their state. It knows no HTTP and no
// user interface.
//
// An instance (instance.go) is one model that is wanted, loading, loaded, failed or unloaded. Start
// sets a wanted model and returns at once. One goroutine, the loader (loader.go), loads and unloads
// one model after another until the loaded models are the wanted ones. So after any sequence of
// clicks, the last one wins. A request wakes the model that it names (wake.go). If memory is short,
// room.go decides which models go. Stop waits until the memory is free. State (view.go) returns
// what menu, window and browser show. Host implements server.Models (acquire.go): the server finds
// the models through it.
//
// After a failure or a panic while loading, the host can load another model. A model whose process
// crashed is loaded again (crash.go).
package host

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headroom/app/cache"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/power"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Engine is a loaded model. *engine.Engine documents the methods.
type Engine interface {
	server.Engine
	Cancel(id string) bool
	Recent() []engine.Finished
	StoredModel() engine.StoredModel
	CachedPrefixes() []engine.CachedPrefix
	Forget(tokens []int32) (freedBytes int64)
	ForgetAll() (freedBytes int64)
	Title(tokens []int32) string
	Close() error
}

// Options configure a Host. Library and Meter are required.
type Options struct {
	Version string
	Library *library.Library
	Meter   *memory.Meter
	// Engine returns the options for loading the model with that ID. The host sets Progress,
	// AvailableBytes, ModelName, History and BlockStore itself. A nil function means the defaults.
	Engine func(id string) engine.Options
	// Device chooses a device of the engine when Options.Engine names none. warning is a Problem
	// that State shows, such as a GPU that failed its self-test, or nil. err is the context's
	// error. A nil function means the engine's default.
	Device func(context.Context) (device string, warning error, err error)
	Cache  cache.Options // the cache on SSD; the zero value turns it off
	// Adapter is for the model that is started first, and no other; nil: there is none.
	Adapter *engine.Adapter
	// LastModel is the model that Start("") starts first; "" means the bundled model.
	LastModel string
	// Open loads a model; nil means engine.Open.
	Open func(context.Context, engine.Source, engine.Options) (Engine, error)
	// Check checks a model in another process. If it is nil, models cannot be checked.
	Check CheckFunc
	Log   *slog.Logger // nil: slog.Default()
	// Watch configures how model folders are watched. If it is nil, they are scanned on request.
	Watch *library.WatchOptions
	// IdleUnload returns how long a model may be idle before it is unloaded; 0, or a nil function,
	// means never. It is called every few seconds.
	IdleUnload func() time.Duration
	// Model returns the rules for the model with that ID. A nil function means the zero value.
	Model func(id string) ModelRules
	// Configured reports whether the settings have more than aliases for the model with that ID. It
	// may be nil.
	Configured func(id string) bool
	// Requests returns the rules for requests. A nil function means the zero value.
	Requests func() RequestRules
	// Power returns the power source and thermal state, and the measures that the user allows. A
	// nil function means that no measures are taken. It is called every few seconds.
	Power func() (power.State, power.Policy)
	// FreeUnderPressure reports whether caches are returned to the system while memory is short. A
	// nil function means that they are not. It is called every few seconds.
	FreeUnderPressure func() bool
	// ReloadPause is the pause before a crashed model is loaded again. It grows with each further
	// crash; see retry.go. 0 means half a second.
	ReloadPause time.Duration
	// ReopenPause is the pause before a cache that could not be opened is opened again. It doubles
	// up to 64 times its length; see cachereopen.go. 0 means ten seconds.
	ReopenPause time.Duration
	// RememberPause stores whether the watching of folders is paused. It may be nil.
	RememberPause func(paused bool) error

	now func() time.Time // nil: time.Now; set in tests
}

// ModelRules say how long a model stays loaded.
type ModelRules struct {
	// Pinned keeps a loaded model in memory: it is not unloaded for being idle, nor for another
	// model.
	Pinned bool
	// IdleUnload overrides Options.IdleUnload if it is not nil; 0 means never.
	IdleUnload *time.Duration
}

// RequestRules say which models requests load.
type RequestRules struct {
	// Load lets a request load any model that it names. Otherwise requests load only models that
	// were unloaded by themselves.
	Load bool
	// Wait is how long a request may wait for its model; 0 means defaultWait.
	Wait time.Duration
	// DefaultModel is the name of the model for requests that name none, while no person has
	// started one; "": none.
	DefaultModel string
	// Aliases returns further names of the model with that ID. It may be nil.
	Aliases func(id string) []string
}

// Host owns the loaded models. Its methods may be called from any goroutine.
type Host struct {
	options     Options
	log         *slog.Logger
	models      modelList
	begun       time.Time // when New was called
	suggestions suggestions
	texts       textState
	cache       diskCache
	// computed is shared by all engines, so that each knows what earlier engines computed.
	computed *engine.History

	mu sync.Mutex // guards the fields down to subscribers

	// What the loader works on.
	instances   []*instance // in the order in which they were first wanted
	chosen      *instance   // the one that a person started last; nil: none since Stop
	maintenance func()      // runs as soon as no model is loaded; nil: none
	stepped     *sync.Cond  // on mu: the loader has taken a step, or has nothing to do
	passes      int         // how often the loader had nothing more to do
	// adapters has, by model, the adapter with which a person started it: that of all requests
	// that name none. nil: nothing has been started.
	adapters map[string]engine.Adapter
	closed   bool
	// starting is closed when the start that StartLater has begun has been made; nil: there is
	// none. startedLater is the ID of the model that it has started.
	starting     chan struct{}
	startedLater string

	last          string // the model that was started last
	anyRan        bool   // a model has run
	crashCount    atomic.Int64
	deviceWarning error // from Options.Device
	power         powerState
	pressure      pressureState
	checks        checks
	endpoint      Endpoint
	samples       samples
	reuse         Reuse // of the engines that are closed
	subscribers   subscribers

	background background
}

// background has the host's goroutines.
type background struct {
	wakeLoader chan struct{}      // capacity 1: the loader may have something to do
	stop       context.CancelFunc // ends loader, sampler and reopening
	ended      chan struct{}      // closed when they have returned
	processes  sync.WaitGroup     // goroutines that wait for a worker process
}

// New returns a Host with no model loaded. Close ends it.
func New(o Options) *Host {
	if o.Open == nil {
		o.Open = openEngine
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.now == nil {
		o.now = time.Now
	}
	o.ReloadPause = cmp.Or(o.ReloadPause, firstPause)
	o.ReopenPause = cmp.Or(o.ReopenPause, firstReopenPause)
	ctx, stop := context.WithCancel(context.Background())
	h := &Host{options: o, log: o.Log, computed: engine.NewHistory(), last: o.LastModel,
		begun:       time.Now(),
		subscribers: subscribers{}, background: background{
			wakeLoader: make(chan struct{}, 1), stop: stop, ended: make(chan struct{})}}
	h.models.library = o.Library
	h.cache.pause = o.ReopenPause
	h.cache.open(o.Cache, o.Log)
	h.stepped = sync.NewCond(&h.mu)
	if o.Watch != nil {
		h.models.watch(*o.Watch, h.modelsChanged)
	}
	h.updatePower()
	var running sync.WaitGroup
	running.Go(func() { h.runLoader(ctx) })
	running.Go(func() { h.runSampler(ctx) })
	running.Go(func() { h.noteListed(ctx) })
	if o.Cache.Dir != "" {
		running.Go(func() { h.runReopen(ctx) })
	}
	go func() { running.Wait(); close(h.background.ended) }()
	return h
}

// openEngine is engine.Open, but returns a nil interface with an error.
func openEngine(ctx context.Context, src engine.Source, o engine.Options) (Engine, error) {
	e, err := engine.Open(ctx, src, o)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Start loads a model, by ID, name, alias or folder, and puts it in front; "" means the one that
// ran last, or the bundled one. It returns at once; the model is loaded in the background, and
// State reports the result. A model that is already loaded or loading stays. Other loaded models
// stay if memory allows; see room.go. A load that an earlier Start has begun is cancelled. The
// error is a Problem: there is no such model, or its folder cannot be used.
func (h *Host) Start(nameOrDir string) error {
	_, err := h.start(nameOrDir)
	return err
}

// start is Start, and returns the ID of the model.
func (h *Host) start(nameOrDir string) (id string, err error) {
	if nameOrDir == "" {
		h.mu.Lock()
		nameOrDir = h.last
		h.mu.Unlock()
	}
	m, a, err := h.resolveAdapted(nameOrDir)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return "", errShutDown()
	}
	if first := h.options.Adapter; first != nil && h.adapters == nil {
		if a != nil {
			return "", problem.New(problem.BadRequest,
				nameOrDir+" names an adapter, and --adapter another", "", "Leave one of them out.")
		}
		a = first
	}
	for _, other := range slices.Clone(h.instances) {
		// The last click wins over a load of an earlier one, and over its failure.
		if t := other.want; t != nil && t.byPerson && !other.is(m) &&
			(other.failure != nil || other.have != t && !t.reload) {
			h.setWanted(other, nil)
		}
	}
	h.last = nameOrDir
	i := h.instanceOf(m)
	h.chosen = i
	reload := h.setAdapter(m.ID, a)
	if reload {
		i.need = nil // it includes the adapter
	}
	if t := i.want; t != nil && i.failure == nil && !reload {
		if !t.byPerson { // it is loaded before the models of other requests
			t.byPerson = true
			h.wakeLoader()
		}
		h.subscribers.notify()
		return m.ID, nil
	}
	i.crashes = crashes{}
	h.setWanted(i, &target{byPerson: true})
	return m.ID, nil
}

// setAdapter keeps the adapter with which a person has started a model, and reports whether it is
// another than before. A nil adapter changes nothing. The caller must hold mu.
func (h *Host) setAdapter(id string, a *engine.Adapter) bool {
	if h.adapters == nil {
		h.adapters = map[string]engine.Adapter{}
	}
	if a == nil || h.adapters[id] == *a {
		return false
	}
	h.adapters[id] = *a
	return true
}

// resolveAdapted finds a model by what a person calls it: by its ID or its folder, or else as a
// request does. The name may have that of an adapter after it, as in requests: "model+adapter".
// The adapter is nil if there is none.
func (h *Host) resolveAdapted(nameOrDir string) (library.Model, *engine.Adapter, error) {
	return ResolveAdapted(h.options.Library, h.models.list(), nameOrDir, h.requestRules().Aliases)
}

// Stop unloads all models, or cancels loading them, and returns when their memory is free.
func (h *Host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.chosen = nil
	h.stop(slices.Clone(h.instances))
}

// StopModel unloads one model, or cancels loading it, and returns when its memory is free. It does
// nothing if the model is not loaded. The error is a Problem: there is no such model.
func (h *Host) StopModel(name string) error {
	models, rules := h.models.list(), h.requestRules()
	h.mu.Lock()
	defer h.mu.Unlock()
	i, _, err := h.named(name, models, rules)
	if err != nil || i == nil {
		return err // a model without an instance is not loaded
	}
	if h.chosen == i {
		h.chosen = nil
	}
	h.stop([]*instance{i})
	return nil
}

// stop unloads these models and waits until their memory is free, or somebody wants them again. The
// caller holds mu.
func (h *Host) stop(list []*instance) {
	for _, i := range list {
		i.crashes, i.unloaded = crashes{}, notUnloaded
		h.setWanted(i, nil)
	}
	for _, i := range list {
		for i.want == nil && (i.have != nil || i.opening) {
			h.stepped.Wait()
		}
	}
}

func (h *Host) wakeLoader() {
	select {
	case h.background.wakeLoader <- struct{}{}:
	default: // the loader has yet to look at the instances
	}
}

// Wait waits until the model that a person started last runs. The error is the error of ctx, or a
// Problem: loading the model failed, no model is wanted, or Stop was called meanwhile.
func (h *Host) Wait(ctx context.Context) error {
	changed, done := h.Subscribe()
	defer done()
	for {
		h.mu.Lock()
		i := h.chosen
		var ready, wanted bool
		var failure error
		if i != nil {
			ready, failure, wanted = i.running() != nil, i.failure, i.want != nil
		}
		h.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case ready:
			return nil
		case !wanted:
			return problem.New(problem.NotRunning, "The engine was stopped", "", "")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Cancel cancels the request with that ID and reports whether there was one.
func (h *Host) Cancel(requestID string) bool {
	for _, t := range h.runningTargets() {
		if t.engine.Cancel(requestID) {
			return true
		}
	}
	return false
}

// SetEndpoint sets the addresses that State reports.
func (h *Host) SetEndpoint(e Endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoint = e
	h.subscribers.notify()
}

// Subscribe returns a channel that receives a value after State has changed, and a function that
// ends the subscription. Several changes may be reported as one. Changes of speed and memory are
// not reported.
func (h *Host) Subscribe() (changed <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subscribers, c)
	}
}

// subscribers has the channels that Subscribe returned, each of capacity 1.
type subscribers map[chan struct{}]bool

func (s subscribers) notify() {
	for c := range s {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// endTime is how long a model's process may take to end with the host. In this time it writes what
// it can of its cache to disk. All processes end at once.
const endTime = 1500 * time.Millisecond

// Close unloads the models, which writes their caches to disk, and ends the host. It takes little
// more than endTime, even if the process of a model hangs. A second call waits until the first has
// finished.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	var loaded []*target
	for _, i := range h.instances {
		loaded = append(loaded, i.have)
	}
	if h.checks.cancel != nil {
		h.checks.cancel(nil)
	}
	h.mu.Unlock()
	for _, t := range loaded {
		t.endSoon()
	}
	h.Stop()
	h.background.stop()
	<-h.background.ended
	h.background.processes.Wait()
	h.models.close()
	h.cache.close(h.log)
}

// endSoon makes the model's process end within endTime. It does nothing for nil, or for a model in
// this process.
func (t *target) endSoon() {
	if t == nil {
		return
	}
	if m, ok := t.engine.(processEngine); ok {
		m.EndWithin(endTime)
	}
}

// Package host starts and stops models for the app and reports their state. It knows no HTTP and no
// user interface.
//
// Start sets the wanted model and returns at once. One goroutine, the loader (loader.go), loads and
// unloads until the loaded model is the wanted one. So after any sequence of clicks, the last one
// wins. Stop clears the wanted model and waits until the memory is free. State (view.go) returns
// what menu, window and browser show. Host implements server.Models (acquire.go): the server finds
// the running model through it.
//
// At most one model is loaded: the old one is unloaded before the new one is loaded, because the
// two might not fit together. After a failure or a panic while loading, the host can load another
// model. A model whose process crashed is loaded again (crash.go).
package host

import (
	"cmp"
	"context"
	"log/slog"
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
	// LastModel is the model that Start("") starts first; "" means the bundled model.
	LastModel string
	// Open loads a model; nil means engine.Open.
	Open func(context.Context, engine.Source, engine.Options) (Engine, error)
	Log  *slog.Logger // nil: slog.Default()
	// Watch configures how model folders are watched. If it is nil, they are scanned on request.
	Watch *library.WatchOptions
	// IdleUnload returns how long a model may be idle before it is unloaded; 0, or a nil function,
	// means never. It is called every few seconds.
	IdleUnload func() time.Duration
	// Power returns the power source and thermal state, and the measures that the user allows. A
	// nil function means that no measures are taken. It is called every few seconds.
	Power func() (power.State, power.Policy)
	// ReloadPause is the pause before a crashed model is loaded again. It grows with each further
	// crash; see retry.go. 0 means half a second.
	ReloadPause time.Duration
	// ReopenPause is the pause before a cache that could not be opened is opened again. It doubles
	// up to 64 times its length; see cachereopen.go. 0 means ten seconds.
	ReopenPause time.Duration
	// Aliases returns further names by which requests may ask for the model with that ID. It may be
	// nil.
	Aliases func(id string) []string
	// RememberPause stores whether the watching of folders is paused. It may be nil.
	RememberPause func(paused bool) error
}

// Host owns the loaded model. Its methods may be called from any goroutine.
type Host struct {
	options Options
	log     *slog.Logger
	models  modelList
	texts   textState
	cache   diskCache
	// computed is shared by all engines, so that each knows what its predecessors computed.
	computed *engine.History

	mu sync.Mutex // guards the fields down to subscribers

	// What the loader works on.
	want        *target    // nil: no model is wanted
	have        *target    // loaded, or being unloaded; its engine is not nil
	opening     bool       // a model is being loaded
	failure     error      // why the wanted model could not be loaded
	maintenance func()     // runs as soon as no model is loaded; nil: none
	settled     *sync.Cond // on mu: the loader has nothing to do
	closed      bool

	last          string  // the model that was started last
	crashes       crashes // of that model
	crashCount    atomic.Int64
	deviceWarning error // from Options.Device
	idle          idleState
	power         powerState
	endpoint      Endpoint
	samples       samples
	subscribers   subscribers

	background background
}

// background has the host's goroutines.
type background struct {
	wakeLoader chan struct{}      // capacity 1: Host.want may differ from Host.have
	stop       context.CancelFunc // ends loader, sampler and reopening
	ended      chan struct{}      // closed when they have returned
	processes  sync.WaitGroup     // goroutines that wait for a worker process to end
}

// target is one request to run a model. Starting the same model twice makes two targets.
type target struct {
	model        library.Model
	engine       Engine        // nil until loaded
	requestsWait bool          // requests wait until it is loaded
	reload       bool          // it has run before: loading is tried again after any failure
	attempts     int           // failures of loading in a row, other than crashes
	pause        time.Duration // before loading
	retryAt      time.Time     // when loading is tried again after a failure; zero: it is not
	loadedAt     time.Time
	stores       bool    // it was loaded with the cache on SSD; guarded by Host.mu
	progress     float64 // [0, 1] while loading; guarded by Host.mu
	context      context.Context
	cancel       context.CancelFunc
}

// New returns a Host with no model loaded. Close ends it.
func New(o Options) *Host {
	if o.Open == nil {
		o.Open = openEngine
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.ReloadPause = cmp.Or(o.ReloadPause, firstPause)
	o.ReopenPause = cmp.Or(o.ReopenPause, firstReopenPause)
	ctx, stop := context.WithCancel(context.Background())
	h := &Host{options: o, log: o.Log, computed: engine.NewHistory(), last: o.LastModel,
		subscribers: subscribers{}, background: background{
			wakeLoader: make(chan struct{}, 1), stop: stop, ended: make(chan struct{})}}
	h.models.library = o.Library
	h.cache.pause = o.ReopenPause
	h.cache.open(o.Cache, o.Log)
	h.settled = sync.NewCond(&h.mu)
	if o.Watch != nil {
		h.models.watch(*o.Watch, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.subscribers.notify()
		})
	}
	h.updatePower()
	var running sync.WaitGroup
	running.Go(func() { h.runLoader(ctx) })
	running.Go(func() { h.runSampler(ctx) })
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

// Start sets the wanted model, by ID, name or folder; "" means the one that ran last, or the
// bundled one. It returns at once; the model is loaded in the background, and State reports the
// result. A model that is already loaded or loading stays. The error is a Problem: there is no such
// model, or its folder cannot be used.
func (h *Host) Start(nameOrDir string) error {
	if nameOrDir == "" {
		h.mu.Lock()
		nameOrDir = h.last
		h.mu.Unlock()
	}
	m, err := h.options.Library.ResolveAmong(h.models.list(), nameOrDir)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return errShutDown()
	case h.want != nil && h.want.model.ID == m.ID && h.want.model.Dir == m.Dir && h.failure == nil:
		return nil
	}
	h.last = nameOrDir
	h.crashes = crashes{}
	h.setWanted(&target{model: m})
	return nil
}

// Stop unloads the model, or cancels loading it, and returns when its memory is free.
func (h *Host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crashes = crashes{}
	h.setWanted(nil)
	for h.want == nil && (h.have != nil || h.opening) {
		h.settled.Wait()
	}
}

// setWanted changes the wanted model; nil for none. The caller holds mu.
func (h *Host) setWanted(t *target) {
	if h.want != nil {
		h.want.cancel()
	}
	if t != nil {
		t.context, t.cancel = context.WithCancel(context.Background())
	}
	h.want, h.failure, h.idle.unloaded = t, nil, nil
	h.wakeLoader()
	h.subscribers.notify()
}

func (h *Host) wakeLoader() {
	select {
	case h.background.wakeLoader <- struct{}{}:
	default: // the loader has yet to read h.want
	}
}

// Wait waits until the wanted model runs. The error is the error of ctx, or a Problem: loading the
// model failed, no model is wanted, or Stop was called meanwhile.
func (h *Host) Wait(ctx context.Context) error {
	changed, done := h.Subscribe()
	defer done()
	for {
		h.mu.Lock()
		ready, failure, wanted := h.running() != nil, h.failure, h.want != nil
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

// running returns the target that serves requests, nil for none. The caller holds mu.
func (h *Host) running() *target {
	if h.have != nil && h.have == h.want {
		return h.have
	}
	return nil
}

// Cancel cancels the request with that ID and reports whether there was one.
func (h *Host) Cancel(requestID string) bool {
	h.mu.Lock()
	t := h.running()
	h.mu.Unlock()
	return t != nil && t.engine.Cancel(requestID)
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
// it can of its cache to disk.
const endTime = 1500 * time.Millisecond

// Close unloads the model, which writes its cache to disk, and ends the host. It takes little more
// than endTime, even if the model's process hangs. A second call waits until the first has
// finished.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	have := h.have
	h.mu.Unlock()
	have.endSoon()
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

// Package host starts and stops models for the app and reports their state. It knows no HTTP and no
// user interface.
//
// Start and Stop only set the wanted model and return at once. One worker goroutine (worker.go)
// loads and unloads until the loaded model is the wanted one, so any order of clicks ends in the
// last one. State (view.go) assembles what there is to show. Host implements server.Models
// (acquire.go), through which requests find the running model.
//
// Invariants: at most one model is loaded, and the old one is gone before the new one is loaded,
// because both might not fit. A failure or a panic while loading leaves a host that can load
// another model. A model whose process crashed is loaded again (crash.go).
package host

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"headroom/app/cache"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/power"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Engine is a loaded model, as the host needs it.
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
	// Engine returns the options for loading the model with that ID; nil means the defaults. The
	// host sets Progress, AvailableBytes, ModelName, History and BlockStore itself.
	Engine func(id string) engine.Options
	// Device chooses one of engine's devices when Engine names none. trouble is a Problem to show,
	// such as a GPU that failed its self-test, or nil; err is the context's error. nil means the
	// engine's default.
	Device func(context.Context) (device string, trouble error, err error)
	Cache  cache.Options // the cache on SSD; the zero value turns it off
	// LastModel is the model that Start("") starts first; "" means the bundled model.
	LastModel string
	// Open loads a model; nil means engine.Open.
	Open func(context.Context, engine.Source, engine.Options) (Engine, error)
	Log  *slog.Logger // nil: slog.Default()
	// Watch configures the watching of model folders; nil means that they are scanned on request.
	Watch *library.WatchOptions
	// IdleUnload returns how long a model may be idle before it is unloaded; 0, or a nil function,
	// means never. It is called every few seconds.
	IdleUnload func() time.Duration
	// Power returns the power source, the thermal state, and what may be done about them; nil means
	// that nothing is done.
	Power func() (power.State, power.Policy)
	// ReloadPause is the pause before a crashed model is loaded again; it doubles with each crash.
	// 0 means half a second.
	ReloadPause time.Duration
	// RememberPause stores whether watching is paused; may be nil.
	RememberPause func(paused bool) error
}

// Host owns the loaded model. Its methods may be called from any goroutine.
type Host struct {
	options Options
	log     *slog.Logger
	models  modelList
	cache   diskCache
	// read outlives the engines, so that each knows what its predecessor computed.
	read *engine.History

	mu          sync.Mutex
	want        *target // nil: no model is wanted
	maintenance func()  // run by the worker when no model is loaded; nil: none
	have        *target // loaded, or being unloaded; its engine is not nil
	opening     bool    // the worker is loading a model
	failure     error   // why want could not be loaded
	notice      error   // the trouble that Options.Device reported
	crashes     crashes // of the model that was started last
	last        string  // model that was started last
	// idle was unloaded for being idle, and the next request for it loads it again. want is nil
	// then.
	idle     *library.Model
	lastUsed *target // the target that usedAt belongs to
	usedAt   time.Time
	endpoint Endpoint
	history  history
	power    power.State
	measures power.Measures
	watchers map[chan struct{}]bool
	closed   bool
	settled  *sync.Cond // on mu: the worker has nothing to do

	processes sync.WaitGroup // goroutines that wait for a process to end

	wake  chan struct{} // capacity 1: want may differ from have
	ended chan struct{} // closed when worker and sampler have returned
	stop  context.CancelFunc
}

// target is one request to run a model. Starting the same model twice makes two targets.
type target struct {
	model        library.Model
	engine       Engine        // nil until loaded
	requestsWait bool          // requests wait until it is loaded
	reload       bool          // after a crash
	pause        time.Duration // before loading
	progress     float64       // [0, 1] while loading; guarded by Host.mu
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
	ctx, stop := context.WithCancel(context.Background())
	h := &Host{options: o, log: o.Log, read: engine.NewHistory(), last: o.LastModel,
		watchers: map[chan struct{}]bool{}, wake: make(chan struct{}, 1),
		ended: make(chan struct{}), stop: stop}
	h.models.library = o.Library
	h.cache.open(o.Cache, o.Log)
	h.settled = sync.NewCond(&h.mu)
	if o.Watch != nil {
		h.models.watch(*o.Watch, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.notify()
		})
	}
	h.followPower()
	var running sync.WaitGroup
	running.Go(func() { h.work(ctx) })
	running.Go(func() { h.sample(ctx) })
	go func() { running.Wait(); close(h.ended) }()
	return h
}

// openEngine is engine.Open behind the host's interface.
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
		return problem.New(problem.NotRunning, "Headroom is shutting down", "", "")
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
	h.want, h.failure, h.idle = t, nil, nil
	h.wakeWorker()
	h.notify()
}

// wakeWorker wakes the worker. The caller holds mu.
func (h *Host) wakeWorker() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Wait returns when the wanted model runs, or with the Problem why it does not. A Stop in between
// is a Problem, too.
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

// SetEndpoint sets the address that State reports.
func (h *Host) SetEndpoint(e Endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoint = e
	h.notify()
}

// Subscribe returns a channel that receives a value after the status has changed, and a function
// that ends the subscription. Several changes may be reported as one; changes of speed and memory
// are not reported.
func (h *Host) Subscribe() (changed <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, c)
	}
}

// notify signals all subscribers. The caller holds mu.
func (h *Host) notify() {
	for c := range h.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Close unloads the model, which writes the cache to disk, and ends the host. A second call waits
// like the first.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.Stop()
	h.stop()
	<-h.ended
	h.processes.Wait()
	h.models.close()
	h.cache.close(h.log)
}

// The history covers historyTime with a sample every historyStep.
const (
	historyTime = 10 * time.Minute
	historyStep = 5 * time.Second
)

// Package host runs the engine's life for the app: start, stop, state. It knows no HTTP and no user
// interface.
//
// One worker goroutine (worker.go) brings what is loaded in line with what is wanted; Start and
// Stop only say what is wanted, so that they return at once and any order of clicks ends in the
// last one. State (view.go) puts together what there is to show. Host implements server.Models
// (acquire.go): requests find the running model through it.
//
// Invariants: at most one model is loaded, and the old one is gone before the new one is read,
// since both would not fit; a failure to load, or a panic in it, leaves a host that can load
// another; a model whose process has ended is loaded again (crash.go).
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

// Engine is what the host needs of a loaded model, beyond what requests need.
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
	// Engine is how the model of that ID is opened; nil means engine's defaults. Progress,
	// AvailableBytes, ModelName, History and BlockStore are the host's own.
	Engine func(id string) engine.Options
	// Device says what computes where Engine does not: one of engine's devices. trouble is a
	// Problem to show, such as a GPU that cannot be trusted, or nil; err is the context's. nil:
	// engine's default.
	Device func(context.Context) (device string, trouble error, err error)
	Cache  cache.Options // where conversations are kept on disk; the zero value: nowhere
	// LastModel is what Start("") starts before anything has run here; "" means the bundled model.
	LastModel string
	// Open is how a model is loaded; nil means engine.Open.
	Open func(context.Context, engine.Source, engine.Options) (Engine, error)
	Log  *slog.Logger // nil: slog.Default()
	// Watch says how the list of models follows the disk; nil: it is looked through when somebody
	// asks.
	Watch *library.WatchOptions
	// RestAfter is how long a model may go unused before it gives its memory back, asked again and
	// again; nil or 0: for ever.
	RestAfter func() time.Duration
	// Power is where the power comes from, how hot the computer is, and what may be done about
	// that; nil: nothing is.
	Power func() (power.State, power.Policy)
	// ReloadPause is how long a model waits that is loaded again because its process has ended;
	// twice as long the next time. 0: half a second.
	ReloadPause time.Duration
	// RememberPause keeps over restarts whether watching is paused; may be nil.
	RememberPause func(paused bool) error
}

// Host owns the engine. Its methods may be called from any goroutine.
type Host struct {
	options Options
	log     *slog.Logger
	models  modelList
	cache   keeper
	// outlives the engines, so that each can tell what the one before had read
	read *engine.History

	mu      sync.Mutex
	want    *target // nil: nothing is to be loaded
	errand  func()  // what the worker does when next nothing is loaded; nil: nothing
	have    *target // loaded, or on the way out; its engine is not nil
	opening bool    // the worker is loading something
	failure error   // why want could not be loaded
	notice  error   // what Options.Device had to say
	crashes crashes // of the model that was started last
	last    string  // model that was started last
	// unloaded because nobody used it: the next request for it loads it again; want is nil then
	resting  *library.Model
	lastUsed *target // what usedAt is about
	usedAt   time.Time
	endpoint Endpoint
	history  history
	power    power.State
	measures power.Measures
	watchers map[chan struct{}]bool
	closed   bool
	settled  *sync.Cond // on mu: the worker has nothing to do

	attending sync.WaitGroup // those who wait for the end of a process

	wake  chan struct{} // capacity 1: want may differ from have
	ended chan struct{} // closed when worker and sampler have returned
	stop  context.CancelFunc
}

// target is one intention to run a model: starting the same model twice makes two.
type target struct {
	model    library.Model
	engine   Engine        // nil until loaded
	woken    bool          // by a request, or a crash: requests wait
	reload   bool          // after a crash
	pause    time.Duration // before it is loaded
	progress float64       // of loading; guarded by Host.mu
	context  context.Context
	cancel   context.CancelFunc
}

// New makes a Host with nothing loaded. Close ends it.
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
			h.announce()
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

// Start makes a model the one to run: by ID, name or folder; "" means the one that ran last, or the
// bundled one. It returns at once; loading goes on in the background, and its outcome is in State.
// A model that is loaded or loading already stays. The error is a Problem: there is no such model,
// or its folder cannot be used.
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
	h.aim(&target{model: m})
	return nil
}

// Stop unloads the model, or stops loading it, and returns when the memory is free.
func (h *Host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crashes = crashes{}
	h.aim(nil)
	for h.want == nil && (h.have != nil || h.opening) {
		h.settled.Wait()
	}
}

// aim changes what is wanted. The caller holds mu.
func (h *Host) aim(t *target) {
	if h.want != nil {
		h.want.cancel()
	}
	if t != nil {
		t.context, t.cancel = context.WithCancel(context.Background())
	}
	h.want, h.failure, h.resting = t, nil, nil
	h.poke()
	h.announce()
}

// poke wakes the worker. The caller holds mu.
func (h *Host) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Wait returns when the model that Start asked for runs, or with why it does not. A Stop in between
// is a Problem too.
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

// running returns the target that answers requests now, nil for none. The caller holds mu.
func (h *Host) running() *target {
	if h.have != nil && h.have == h.want {
		return h.have
	}
	return nil
}

// Cancel stops a request by its ID and reports whether there was one.
func (h *Host) Cancel(requestID string) bool {
	h.mu.Lock()
	t := h.running()
	h.mu.Unlock()
	return t != nil && t.engine.Cancel(requestID)
}

// SetEndpoint tells where the server listens, for State.
func (h *Host) SetEndpoint(e Endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoint = e
	h.announce()
}

// Subscribe returns a channel that gets a value after changes of the engine's status (several may
// come as one; speeds and memory change without), and a function that ends the subscription.
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

// announce tells the watchers. The caller holds mu.
func (h *Host) announce() {
	for c := range h.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Close unloads the model, which has the cache on disk written, and ends the host. The second call
// waits like the first.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.Stop()
	h.stop()
	<-h.ended
	h.attending.Wait()
	h.models.close()
	h.cache.close(h.log)
}

// historyTime and historyStep: the last ten minutes, a sample each five seconds.
const (
	historyTime = 10 * time.Minute
	historyStep = 5 * time.Second
)

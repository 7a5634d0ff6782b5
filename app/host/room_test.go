package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/problem"
)

const gib = 1 << 30

// machine is a host on a machine with 100 GiB, of which 92 are available to models. Its models are
// loaded without the help of the test, which takes loadTime on the machine's clock.
type machine struct {
	*testHost
	sizes map[string]int64 // of models, in GiB

	mu     sync.Mutex
	clock  time.Time
	rules  RequestRules
	pinned map[string]bool
	loaded map[string]*fakeEngine
	loads  []string // the models in the order of their loads
	limits []int64  // for each load, the available memory in GiB
	// available is the memory that the meter says is available; 0: what the models leave.
	available int64
}

const loadTime = 10 * time.Second

// newMachine returns a machine whose models "a" and "b" have these sizes in GiB. A model needs
// keysValues bytes in addition for each token of context.
func newMachine(t *testing.T, a, b int64, keysValues int64) *machine {
	m := &machine{clock: time.Unix(1_000_000, 0), loaded: map[string]*fakeEngine{},
		pinned: map[string]bool{}, rules: RequestRules{Load: true, Wait: time.Hour},
		sizes: map[string]int64{"a": a, "b": b}}
	m.testHost = newTestHostWith(t, func(o *Options) {
		o.now = m.now
		o.Requests = func() RequestRules {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.rules
		}
		o.Model = func(id string) ModelRules {
			m.mu.Lock()
			defer m.mu.Unlock()
			return ModelRules{Pinned: m.pinned[id]}
		}
		o.Meter = memory.NewMeter(func([]int) (memory.Reading, error) {
			free := int64(100 * gib)
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, e := range m.loaded {
				free -= engineBytes(e.Stats()).Total()
			}
			if m.available != 0 {
				free = m.available
			}
			return memory.Reading{TotalBytes: 100 * gib, AvailableBytes: free}, nil
		})
		o.Library = library.New(o.Library.Roots(), engine.Options{},
			func(src engine.Source, o engine.Options) (engine.Description, error) {
				return m.describe(src, o, keysValues)
			})
		o.Open = m.open(keysValues)
	})
	return m
}

// describe plans as engine.Describe does: the longest context whose keys and values fit into half
// of the memory that weights leave.
func (m *machine) describe(src engine.Source, o engine.Options, keysValues int64) (
	engine.Description, error) {
	size, ok := m.sizes[filepath.Base(src.Dir)]
	if !ok {
		if src.Dir != "" {
			return engine.Description{}, problem.New(problem.ModelBroken, "It is broken", "", "")
		}
		size = 1
	}
	d := engine.Description{Architecture: "fake", ContextTokens: 1 << 20,
		KVBytesPerToken: keysValues, Need: engine.Need{WeightsBytes: size * gib}}
	d.PlannedTokens = 2048
	if keysValues > 0 {
		half := max(o.AvailableBytes-d.Need.WeightsBytes, 0) / 2
		d.PlannedTokens = max(2048, min(1<<20, int(half/keysValues)))
	}
	d.Need.KVBytes = keysValues * int64(d.PlannedTokens)
	return d, nil
}

func (m *machine) open(keysValues int64) func(context.Context, engine.Source,
	engine.Options) (Engine, error) {
	return func(_ context.Context, src engine.Source, o engine.Options) (Engine, error) {
		name := filepath.Base(src.Dir)
		d, err := m.describe(src, o, keysValues)
		if err != nil {
			return nil, err
		}
		if d.Need.TotalBytes() > o.AvailableBytes {
			m.t.Errorf("%s is loaded with %d GiB available", name, o.AvailableBytes/gib)
		}
		e := &fakeEngine{host: m.testHost, dir: name, o: o, closed: make(chan struct{}),
			stats: engine.Stats{WeightsBytes: d.Need.WeightsBytes, KVBytes: d.Need.KVBytes}}
		e.atClose = func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.loaded, name)
		}
		m.testHost.count(1, 0)
		m.advance(loadTime)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.loaded[name] = e
		m.loads = append(m.loads, name)
		m.limits = append(m.limits, o.AvailableBytes/gib)
		return e, nil
	}
}

func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock
}

func (m *machine) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = m.clock.Add(d)
}

func (m *machine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// settle waits until the loader has looked at everything that has happened before the call.
func (m *machine) settle() {
	m.Host.mu.Lock()
	defer m.Host.mu.Unlock()
	for range 2 { // the first pass may have begun before
		for before := m.passes; m.passes == before; {
			m.wakeLoader()
			m.stepped.Wait()
		}
	}
}

// begin starts a model as a person does.
func (m *machine) begin(name string) {
	m.t.Helper()
	m.start(name)
	if err := m.Wait(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// request asks for a model and returns a function that ends the request.
func (m *machine) request(name string) (end func()) {
	m.t.Helper()
	got, err := m.Wake(m.t.Context(), name)
	if err != nil {
		m.t.Fatalf("%s: %v", name, err)
	}
	if got.ID != name || got.Engine.(*fakeEngine).dir != name {
		m.t.Fatalf("a request for %s gets %s", name, got.ID)
	}
	return func() { got.Release(nil) }
}

// answered is the result of a request that may have to wait.
type answered struct {
	end func()
	err error
}

// requestLater asks for a model, and returns when the request waits or has its model.
func (m *machine) requestLater(ctx context.Context, name string) <-chan answered {
	c := make(chan answered, 1)
	before := m.waiters(name)
	go func() {
		got, err := m.Wake(ctx, name)
		if err != nil {
			c <- answered{err: err}
			return
		}
		c <- answered{end: func() { got.Release(nil) }}
	}()
	for len(c) == 0 && m.waiters(name) == before {
		time.Sleep(time.Millisecond)
	}
	m.settle()
	return c
}

func (m *machine) waiters(name string) int {
	m.Host.mu.Lock()
	defer m.Host.mu.Unlock()
	for _, i := range m.instances {
		if i.model.ID == name {
			return i.waiting
		}
	}
	return 0
}

func (m *machine) expectLoads(want string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := strings.Join(m.loads, " "); got != want {
		m.t.Errorf("loads %q, want %q", got, want)
	}
}

// TestRequestLoads: a request for a model that is not loaded loads it, beside the one of a person,
// which stays in front. An unknown name loads nothing.
func TestRequestLoads(t *testing.T) {
	m := newMachine(t, 30, 30, 0)
	m.begin("a")
	if _, err := m.Wake(t.Context(), "x"); problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("an unknown model: %v", err)
	}
	if _, err := m.Wake(t.Context(), "broken"); !strings.Contains(fmt.Sprint(err),
		"It is broken") || problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("a broken model: %v", err)
	}
	m.request("b")()
	m.request("a")()
	m.request("b")()
	m.expectLoads("a b")
	m.expectEngines("a ready, b ready")
	if s := m.State().Engines; s[0].Requested || !s[1].Requested {
		t.Errorf("%+v", s)
	}
	var list []string
	for _, one := range m.List() {
		list = append(list, one.ID+" "+string(one.State))
	}
	if got, want := strings.Join(list, ", "), "a loaded, b loaded, headroom-demo unloaded"; got !=
		want {
		t.Errorf("List: %s, want %s", got, want)
	}
	m.set(func() { m.rules.Load = false })
	if err := m.StopModel("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Wake(t.Context(), "b"); problem.From(err).Code != problem.NotRunning {
		t.Errorf("a request loads a model although it may not: %v", err)
	}
	if list := m.List(); len(list) != 1 || list[0].ID != "a" {
		t.Errorf("List: %+v", list)
	}
}

// TestRoomForRequest: the least recently used idle model goes. One that a request uses stays until
// the request has ended.
func TestRoomForRequest(t *testing.T) {
	m := newMachine(t, 50, 50, 0)
	m.begin("a")
	end := m.request("a")
	m.advance(time.Hour)
	b := m.requestLater(t.Context(), "b")
	if len(b) > 0 {
		t.Fatalf("it does not wait: %v", <-b)
	}
	m.expectLoads("a")
	end()
	(<-b).end()
	m.expectLoads("a b")
	m.expectEngines("b ready, a unloaded")
	m.begin("a") // a person does not wait for the time that b would stay
	m.expectLoads("a b a")
	m.expectEngines("a ready, b unloaded")
}

// TestLastClickWins: a model that a person starts unloads idle models first, then busy ones.
func TestLastClickWins(t *testing.T) {
	m := newMachine(t, 40, 40, 0)
	m.sizes["."] = 60 // the bundled model, which has no folder
	m.begin("a")
	m.begin("b")
	end := m.request("a")
	defer end()
	m.advance(time.Hour)
	m.begin("headroom-demo")
	m.expectEngines("headroom-demo ready, a unloaded, b unloaded")
}

// TestPinned: a pinned model stays, and a request for a model that needs its memory is refused at
// once, with the figures.
func TestPinned(t *testing.T) {
	m := newMachine(t, 50, 50, 0)
	m.begin("a")
	m.set(func() { m.pinned["a"] = true })
	for _, start := range []func() error{
		func() error { _, err := m.Wake(t.Context(), "b"); return err },
		func() error { m.start("b"); return m.Wait(t.Context()) },
	} {
		err := start()
		for _, want := range []string{"needs at least 50.0 GB", "42.0 GB is available",
			"a holds 50.0 GB", "Unpin"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
	m.expectLoads("a")
	if s := m.State(); s.RoomBytes != 42*gib || !s.Engines[1].Pinned {
		t.Errorf("room %d, %+v", s.RoomBytes/gib, s.Engines)
	}
	m.set(func() { m.pinned["a"] = false })
	m.begin("b")
	m.expectLoads("a b")
}

// TestAlternation: requests alternate between two models that do not fit together. Loading takes at
// most a fifth of the time, and all requests are answered.
func TestAlternation(t *testing.T) {
	const step = time.Second
	for name, c := range map[string]struct {
		size  int64
		loads int // at most
	}{"too large for both": {50, 0}, "both fit": {30, 2}} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.size, c.size, 0)
			begun := m.now()
			answers := 0
			for range 40 {
				a, b := m.requestLater(t.Context(), "a"), m.requestLater(t.Context(), "b")
				for answersNow := 0; answersNow < 2; {
					select {
					case one := <-a:
						one.end()
						answersNow++
					case one := <-b:
						one.end()
						answersNow++
					default:
						m.advance(step)
						m.settle()
					}
				}
				answers += 2
			}
			elapsed := m.now().Sub(begun)
			most := c.loads
			if most == 0 { // a model stays four times its loading
				most = int(elapsed/(5*loadTime)) + 1
			}
			if len(m.loads) > most || answers != 80 {
				t.Errorf("%d loads in %v, at most %d expected; %d answers", len(m.loads), elapsed,
					most, answers)
			}
			if c.loads == 0 && len(m.loads) < 10 {
				t.Errorf("only %d loads: the models do not alternate", len(m.loads))
			}
		})
	}
}

// TestTurnsOfThree: requests ask three models of which two fit together. Loading takes at most a
// fifth of the time, as with two models of which one fits.
func TestTurnsOfThree(t *testing.T) {
	const step = time.Second
	m := newMachine(t, 40, 40, 0)
	m.sizes["c"] = 40
	dir := filepath.Join(m.root, "c")
	if err := errors.Join(os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "config.json"), []byte("c"), 0o644)); err != nil {
		t.Fatal(err)
	}
	begun := m.now()
	waiting := map[string]<-chan answered{"a": nil, "b": nil, "c": nil}
	for answers := 0; answers < 1000; {
		m.advance(step)
		m.settle()
		for name, c := range waiting {
			select {
			case one := <-c:
				if one.err != nil {
					t.Fatal(one.err)
				}
				one.end()
				answers++
				waiting[name] = nil
			default:
			}
			if waiting[name] == nil { // each model always has a request
				waiting[name] = m.requestLater(t.Context(), name)
			}
		}
	}
	elapsed := m.now().Sub(begun)
	if most := int(elapsed/(5*loadTime)) + 2; len(m.loads) > most || len(m.loads) < 10 {
		t.Errorf("%d loads in %v, expected 10 to %d", len(m.loads), elapsed, most)
	}
}

// TestStay: after a load for requests, the model answers requests for four times the loading time
// before it goes for another one. Then its new requests wait behind the other model.
func TestStay(t *testing.T) {
	m := newMachine(t, 50, 50, 0)
	end := m.request("a")
	b := m.requestLater(t.Context(), "b")
	m.advance(4*loadTime - time.Second)
	m.settle()
	m.request("a")() // it still answers
	if len(b) > 0 {
		t.Fatal("b does not wait")
	}
	m.advance(time.Second)
	m.settle()
	a := m.requestLater(t.Context(), "a") // behind b
	if len(a) > 0 || len(b) > 0 {
		t.Fatalf("%d and %d requests are answered, want none", len(a), len(b))
	}
	m.expectLoads("a")
	end()
	endB := (<-b).end
	m.settle()
	m.expectLoads("a b")
	endB()
	m.advance(4 * loadTime)
	m.settle()
	(<-a).end()
	m.expectLoads("a b a")
}

// TestDrainingEnds: if the requests that waited for another model have gone, a model answers its
// own again.
func TestDrainingEnds(t *testing.T) {
	m := newMachine(t, 50, 50, 0)
	end := m.request("a")
	defer end()
	m.advance(time.Hour)
	ctx, disconnect := context.WithCancel(t.Context())
	b := m.requestLater(ctx, "b")
	a := m.requestLater(t.Context(), "a")
	if len(a) > 0 {
		t.Fatal("a new request does not wait behind b")
	}
	disconnect()
	if (<-b).err == nil {
		t.Error("no error")
	}
	(<-a).end()
	m.expectLoads("a")
	m.expectEngines("a ready")
}

// TestWaitIsBounded: a request that has waited for too long is refused, with Retry-After.
func TestWaitIsBounded(t *testing.T) {
	m := newMachine(t, 50, 50, 0)
	defer m.request("a")()
	m.set(func() { m.rules.Wait = time.Millisecond })
	_, err := m.Wake(t.Context(), "b")
	if p := problem.From(err); p.Code != problem.Loading || p.RetryAfter == 0 ||
		!strings.Contains(p.Why, "other models") {
		t.Errorf("%v", err)
	}
	m.settle()
	m.expectLoads("a")
	m.expectEngines("a ready")
}

// TestKeepAlive: a request says how long its model stays loaded.
func TestKeepAlive(t *testing.T) {
	m := newMachine(t, 10, 10, 0)
	keep := func(d time.Duration) {
		t.Helper()
		got, err := m.Wake(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		got.Release(&d)
		got.Release(nil) // a second call does nothing
		m.settle()
	}
	keep(time.Minute)
	m.unloadIdle(m.now())
	m.advance(59 * time.Second)
	m.unloadIdle(m.now())
	m.expectEngines("a ready")
	m.advance(time.Second)
	m.unloadIdle(m.now())
	m.settle()
	m.expectEngines("a unloaded")
	keep(-1)
	m.advance(1000 * time.Hour)
	m.unloadIdle(m.now())
	m.settle()
	if s := m.expectEngines("a ready"); !s.Engine.Pinned {
		t.Error("it is not pinned")
	}
	end := m.request("a")
	keep(0)
	m.expectEngines("a ready") // another request uses it
	end()
	m.settle()
	m.expectEngines("a unloaded")
	m.request("a")()
	m.pinned["a"] = true // by a person: no request decides over it
	keep(0)
	m.expectEngines("a ready")
	m.pinned["a"] = false
	keep(0)
	m.expectEngines("a unloaded")
	m.expectLoads("a a a")
}

// TestUnloadedModelsAreForgotten: a model that was unloaded long ago is no longer listed, unless a
// person started it last.
func TestUnloadedModelsAreForgotten(t *testing.T) {
	m := newMachine(t, 10, 10, 0)
	m.begin("a")
	m.request("b")()
	m.Host.mu.Lock()
	for _, i := range m.instances {
		m.setUnloaded(i, forIdleness)
	}
	m.Host.mu.Unlock()
	m.settle()
	m.expectEngines("a unloaded, b unloaded")
	m.advance(rememberTime)
	m.unloadIdle(m.now())
	m.expectEngines("a unloaded")
}

// TestLoadFailsForRequest: a failure answers the requests for a while. Then a request loads the
// model again.
func TestLoadFailsForRequest(t *testing.T) {
	m := newMachine(t, 10, 10, 0)
	fails := true
	open := m.Host.options.Open
	m.Host.options.Open = func(ctx context.Context, src engine.Source, o engine.Options) (Engine,
		error) {
		if fails {
			return nil, problem.New(problem.ModelBroken, "It is broken", "a tensor is missing", "")
		}
		return open(ctx, src, o)
	}
	for range 2 {
		if _, err := m.Wake(t.Context(), "a"); !strings.Contains(fmt.Sprint(err),
			"a tensor is missing") || problem.From(err).Code != problem.ModelNotFound {
			t.Errorf("got %v", err)
		}
		m.expectEngines("a failed")
		fails = false // the second request is too soon to notice
	}
	m.advance(failurePause)
	m.request("a")()
	m.expectEngines("a ready")
}

// TestSharedMemory: a model that is alone gets half of the memory for its keys and values. If it
// has to go for another one, that one leaves room for both, so that each is loaded once more at
// most.
func TestSharedMemory(t *testing.T) {
	m := newMachine(t, 25, 25, gib/4096) // 8 GiB for sharedContext, so each needs 25 + 2 * 8
	m.begin("a")                         // of 92 - 25, half are keys and values: 58.5 in all
	m.request("b")()                     // 33.5 are left
	m.advance(time.Hour)
	m.request("a")()
	m.request("b")()
	m.request("a")()
	m.expectLoads("a b a")
	m.expectEngines("a ready, b ready")
	if want := []int64{92, 51, 54}; !slices.Equal(m.limits, want) {
		t.Errorf("the models are loaded with %d GiB available, want %d", m.limits, want)
	}
}

// TestDecide compares decisions with those worked out by hand.
func TestDecide(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	one := func(id string, usedAt int, bytes int64) occupant {
		return occupant{bytes: bytes, instance: &instance{model: library.Model{ID: id},
			usedAt: at(usedAt)}}
	}
	with := func(o occupant, change func(*occupant)) occupant { change(&o); return o }
	busy := func(o *occupant) { o.busy = true }
	stays := func(o *occupant) { o.stays = true }
	pinned := func(o *occupant) { o.pinned = true }
	draining := func(o *occupant) { o.draining = true }
	for _, c := range []struct {
		name   string
		n      loadNeed
		room   int64
		others []occupant
		urgent bool
		want   string
	}{
		{"it fits", loadNeed{5, 10}, 10, []occupant{one("a", 1, 9)}, false, "ready"},
		{"alone it gets what there is", loadNeed{5, 10}, 7, nil, false, "ready"},
		{"alone it is too large", loadNeed{5, 10}, 4, nil, false, "refused"},
		{"room for the shared need first", loadNeed{5, 10}, 7, []occupant{one("a", 1, 9)}, false,
			"evict a"},
		{"the least recently used", loadNeed{5, 10}, 7,
			[]occupant{one("a", 2, 3), one("b", 1, 3), one("c", 3, 3)}, false, "evict b"},
		{"not a pinned one", loadNeed{5, 10}, 7,
			[]occupant{with(one("a", 1, 3), pinned), one("b", 2, 3)}, false, "evict b"},
		{"only pinned ones", loadNeed{8, 10}, 7, []occupant{with(one("a", 1, 3), pinned)}, false,
			"refused"},
		{"less beside pinned ones", loadNeed{5, 10}, 7,
			[]occupant{with(one("a", 1, 3), pinned)}, false, "ready"},
		{"no busy one", loadNeed{5, 10}, 7, []occupant{with(one("a", 1, 3), busy)}, false,
			"wait a"},
		{"none in vain", loadNeed{5, 10}, 4,
			[]occupant{with(one("a", 1, 3), busy), one("b", 2, 3)}, false, "wait a"},
		{"one that was loaded just now", loadNeed{5, 10}, 7,
			[]occupant{with(one("a", 1, 3), stays)}, false, "wait"},
		{"one that waits already", loadNeed{5, 10}, 7,
			[]occupant{with(one("a", 1, 3), busy),
				with(with(one("b", 2, 3), busy), draining)}, false, "wait b"},
		{"a person: an idle one first", loadNeed{5, 10}, 7,
			[]occupant{with(one("a", 1, 3), busy), with(one("b", 2, 3), stays)}, true, "evict b"},
		{"a person: then a busy one", loadNeed{5, 10}, 7,
			[]occupant{with(one("a", 1, 3), busy)}, true, "evict a"},
		{"a person: no pinned one", loadNeed{8, 10}, 7,
			[]occupant{with(one("a", 1, 3), pinned)}, true, "refused"},
	} {
		v := decide(c.n, c.room, c.others, c.urgent)
		got := "wait"
		switch {
		case v.ready:
			got = "ready"
		case v.refuse:
			got = "refused"
		case v.evict != nil:
			got = "evict " + v.evict.model.ID
		}
		for _, i := range v.drain {
			got += " " + i.model.ID
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

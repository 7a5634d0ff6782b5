package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

const timeout = 20 * time.Second

// testHost is a host with the models "a", "b" and "broken". The test decides how each load ends.
type testHost struct {
	*Host
	t      *testing.T
	root   string
	opened chan *fakeEngine // receives each engine when its load begins

	mu    sync.Mutex
	open  int // engines that are loading or loaded
	loads int // engines that are loading
	most  int // the highest value of loads
}

// fakeEngine loads until the test sends its error, or nil for success, on finish.
type fakeEngine struct {
	host   *testHost
	dir    string
	o      engine.Options
	finish chan error
	closed chan struct{}

	mu      sync.Mutex
	stats   engine.Stats
	atClose func() // nil: nothing

	stored    engine.StoredModel
	prefixes  []engine.CachedPrefix
	dutyCycle float64
	draftGain float64
	growth    atomic.Int64                  // the part for caches
	allow     atomic.Pointer[engine.Growth] // of SetGrowth
	shrunk    []int64                       // the arguments of Shrink
	forgotten [][]int32                     // {-1}: all
	recent    []engine.Finished
}

func (e *fakeEngine) Info() engine.Info {
	return engine.Info{Device: "a fake", KVFormat: "f16", StateFormat: "bf16",
		Description: engine.Description{ContextTokens: 4096}}
}
func (e *fakeEngine) Tokenizer() *tokenizer.Tokenizer { return nil }
func (e *fakeEngine) Template() *chat.Template        { return nil }
func (e *fakeEngine) Defaults() sample.Defaults       { return sample.Defaults{} }
func (e *fakeEngine) Submit(engine.Request) (*engine.Stream, error) {
	return nil, errors.New("a fake takes no requests")
}
func (e *fakeEngine) Cancel(id string) bool           { return id == "r1" }
func (e *fakeEngine) StoredModel() engine.StoredModel { return e.stored }
func (e *fakeEngine) Recent() []engine.Finished       { return e.recent }
func (e *fakeEngine) Forget(tokens []int32) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgotten = append(e.forgotten, tokens)
	return int64(len(tokens))
}
func (e *fakeEngine) SetDutyCycle(share float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dutyCycle = share
}
func (e *fakeEngine) SetDraftGain(gain float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draftGain = gain
}
func (e *fakeEngine) SetGrowth(g engine.Growth) {
	e.growth.Store(g.CacheBytes)
	e.allow.Store(&g)
}
func (e *fakeEngine) allowed() engine.Growth { return *e.allow.Load() }
func (e *fakeEngine) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}
func (e *fakeEngine) Shrink(keepBytes int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	cached := e.stats.KVBytes - e.stats.KVUsedBytes
	e.shrunk = append(e.shrunk, keepBytes)
	e.stats.KVBytes -= cached - keepBytes
	return cached - keepBytes
}
func (e *fakeEngine) ForgetAll() int64                      { return e.Forget([]int32{-1}) }
func (e *fakeEngine) CachedPrefixes() []engine.CachedPrefix { return e.prefixes }
func (e *fakeEngine) Title(tokens []int32) string {
	return fmt.Sprint("about ", tokens[0])
}
func (e *fakeEngine) Stats() engine.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}
func (e *fakeEngine) Close() error {
	if e.atClose != nil {
		e.atClose()
	}
	e.host.count(-1, 0)
	close(e.closed)
	return nil
}

// count counts engines: open is the change of those that are loading or loaded.
func (h *testHost) count(open, loading int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open += open
	h.loads += loading
	h.most = max(h.most, h.loads)
}

func newTestHost(t *testing.T) *testHost { return newTestHostWith(t, func(*Options) {}) }

func newTestHostWith(t *testing.T, change func(*Options)) *testHost {
	h := &testHost{t: t, root: t.TempDir(), opened: make(chan *fakeEngine, 8)}
	for _, name := range []string{"a", "b", "broken"} {
		_ = os.Mkdir(filepath.Join(h.root, name), 0o755)
		_ = os.WriteFile(filepath.Join(h.root, name, "config.json"), []byte(name), 0o644)
	}
	describe := func(src engine.Source, _ engine.Options) (engine.Description, error) {
		if filepath.Base(src.Dir) == "broken" {
			return engine.Description{}, problem.New(problem.ModelBroken, "It is broken", "", "")
		}
		return engine.Description{Architecture: "fake", Need: engine.Need{WeightsBytes: 1 << 20}},
			nil
	}
	o := Options{
		Version: "v", Log: slog.New(slog.DiscardHandler), Meter: &memory.Meter{},
		Library: library.New([]string{h.root}, engine.Options{}, describe),
		Open: func(ctx context.Context, src engine.Source, o engine.Options) (Engine, error) {
			e := &fakeEngine{host: h, dir: filepath.Base(src.Dir), o: o, finish: make(chan error),
				closed: make(chan struct{})}
			h.count(1, 1)
			h.opened <- e
			var err error
			select {
			case err = <-e.finish:
			case <-ctx.Done():
				err = ctx.Err()
			}
			h.count(0, -1)
			if err != nil {
				h.count(-1, 0)
				return nil, err
			}
			return e, nil
		},
	}
	change(&o)
	h.Host = New(o)
	t.Cleanup(func() {
		h.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.open != 0 || h.most > 1 {
			t.Errorf("%d engines are open at the end, and up to %d were loading at once; want 0 "+
				"and 1", h.open, h.most)
		}
	})
	return h
}

func (h *testHost) start(name string) {
	h.t.Helper()
	if err := h.Start(name); err != nil {
		h.t.Fatal(err)
	}
}

// loading waits until an engine starts to load and returns it. It must be the engine of that model.
func (h *testHost) loading(name string) *fakeEngine {
	h.t.Helper()
	select {
	case e := <-h.opened:
		if e.dir != name {
			h.t.Fatalf("%s is being loaded, want %s", e.dir, name)
		}
		return e
	case <-time.After(timeout):
		h.t.Fatal("nothing is being loaded")
		return nil
	}
}

// run starts a model and completes its load.
func (h *testHost) run(name string) *fakeEngine {
	h.t.Helper()
	h.start(name)
	e := h.loading(name)
	e.finish <- nil
	if err := h.Wait(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return e
}

func (h *testHost) expect(status Status, model string) State {
	h.t.Helper()
	s := h.State()
	if s.Engine.Status != status || s.Engine.Model != model {
		h.t.Errorf("the engine is %s with %q, want %s with %q", s.Engine.Status, s.Engine.Model,
			status, model)
	}
	sum := int64(0)
	for _, segment := range s.Memory.Segments {
		sum += segment.Bytes
	}
	if sum != s.Memory.TotalBytes {
		h.t.Errorf("the memory segments add up to %d, want %d", sum, s.Memory.TotalBytes)
	}
	return s
}

func waitClosed(t *testing.T, e *fakeEngine) {
	t.Helper()
	select {
	case <-e.closed:
	case <-time.After(timeout):
		t.Fatal(e.dir + " was not closed")
	}
}

func TestStartAndStop(t *testing.T) {
	h := newTestHost(t)
	h.expect(Stopped, "")
	h.start("a")
	e := h.loading("a")
	h.expect(Loading, "a")
	if e.o.AvailableBytes <= 0 {
		t.Error("the engine does not get the available memory")
	}
	e.o.Progress(0.25)
	if s := h.expect(Loading, "a"); s.Engine.Progress != 0.25 {
		t.Errorf("progress %v, want 0.25", s.Engine.Progress)
	}
	e.finish <- nil
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := h.expect(Ready, "a")
	if s.Engine.Device != "a fake" || s.Engine.ContextTokens != 4096 ||
		s.Engine.CacheFormat != "f16" || s.Engine.StateFormat != "bf16" {
		t.Errorf("engine %+v", s.Engine)
	}
	e.mu.Lock()
	e.stats = engine.Stats{Running: 1, DecodeTokensPerSecond: 9, KVBytes: 10, KVUsedBytes: 4,
		GeneratedTokens: 90, DraftTokens: 60, AcceptedTokens: 41,
		Requests: []engine.RequestStats{{ID: "r1", Phase: "decode",
			Usage: engine.Usage{PromptTokens: 3, PromptDoneTokens: 3, CachedTokens: 1,
				CompletionTokens: 2}}}}
	e.mu.Unlock()
	s = h.expect(Busy, "a")
	if want := (Request{ID: "r1", Model: "a", Phase: "decode", PromptTokens: 3, PromptDoneTokens: 3,
		CachedTokens: 1, GeneratedTokens: 2}); len(s.Requests) != 1 || s.Requests[0] != want {
		t.Errorf("requests %+v, want %+v", s.Requests, want)
	}
	if s.Speed.DecodeTokensPerSecond != 9 {
		t.Errorf("speed %+v", s.Speed)
	}
	if n := s.Engine; n.GeneratedTokens != 90 || n.DraftTokens != 60 || n.AcceptedTokens != 41 {
		t.Errorf("drafts %+v", n)
	}
	if !h.Cancel("r1") || h.Cancel("r2") {
		t.Error("Cancel does not reach the engine")
	}
	h.Stop()
	waitClosed(t, e)
	h.expect(Stopped, "")
	if h.Cancel("r1") {
		t.Error("a stopped host has a request")
	}
}

func TestStopWhileLoading(t *testing.T) {
	h := newTestHost(t)
	h.start("a")
	h.loading("a")
	h.Stop()
	h.expect(Stopped, "")
	h.run("a") // starting again works
	h.expect(Ready, "a")
}

func TestSwitchWhileLoading(t *testing.T) {
	h := newTestHost(t)
	h.start("a")
	h.loading("a")
	h.start("b")
	h.loading("b").finish <- nil
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expect(Ready, "b")
}

// TestSeveralModels: a model that is started does not unload another one if both fit. The one that
// was started last is in front, and each is stopped alone.
func TestSeveralModels(t *testing.T) {
	h := newTestHost(t)
	a := h.run("a")
	h.start("b")
	b := h.loading("b")
	h.expect(Loading, "b")
	if m, err := h.Acquire("a"); err != nil || m.Engine != Engine(a) {
		t.Errorf("while another model is loaded: %v", err)
	}
	b.finish <- nil
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.expectEngines("b ready, a ready")
	b.mu.Lock()
	b.stats = engine.Stats{Running: 1, DecodeTokensPerSecond: 2, WeightsBytes: 5,
		PromptTokens: 20, RecomputedTokens: 7,
		Requests: []engine.RequestStats{{ID: "rb", StartedAtUnixMs: 2}}}
	b.mu.Unlock()
	a.mu.Lock()
	a.stats = engine.Stats{Running: 1, DecodeTokensPerSecond: 3, WeightsBytes: 6,
		PromptTokens: 30, RecomputedTokens: 9,
		Requests: []engine.RequestStats{{ID: "ra", StartedAtUnixMs: 1}}}
	a.mu.Unlock()
	s := h.expectEngines("b busy, a busy")
	if len(s.Requests) != 2 || s.Requests[0].Model != "a" || s.Requests[1].Model != "b" ||
		s.Speed.DecodeTokensPerSecond != 5 || s.Memory.Segments[0].Bytes != 11 ||
		s.Engine.MemoryBytes != 5 ||
		s.Reuse != (Reuse{ComputedTokens: 50, RecomputedTokens: 16}) {
		t.Errorf("%+v", s)
	}
	h.start("a") // it runs, and comes to the front
	h.expectEngines("a busy, b busy")
	if err := h.StopModel("a"); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, a)
	h.expectEngines("b busy")
	if err := h.StopModel("a"); err != nil {
		t.Errorf("stopping a model that does not run: %v", err)
	}
	if err := h.StopModel("x"); problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("stopping an unknown model: %v", err)
	}
	h.Stop()
	waitClosed(t, b)
	h.expectEngines("")
	h.expect(Stopped, "")
}

// expectEngines compares State.Engines with a list such as "a ready, b loading".
func (h *testHost) expectEngines(want string) State {
	h.t.Helper()
	s := h.State()
	var list []string
	for _, e := range s.Engines {
		list = append(list, e.Model+" "+string(e.Status))
	}
	if got := strings.Join(list, ", "); got != want {
		h.t.Errorf("the engines are %q, want %q", got, want)
	}
	if len(s.Engines) > 0 && s.Engines[0] != s.Engine {
		h.t.Errorf("in front is %+v, but the list begins with %+v", s.Engine, s.Engines[0])
	}
	return s
}

func TestStartOfTheRunningModel(t *testing.T) {
	h := newTestHost(t)
	h.run("a")
	h.start("a")
	h.start(filepath.Join(h.root, "a"))
	h.start("") // the model started last
	h.expect(Ready, "a")
	if len(h.opened) != 0 {
		t.Error("the running model is loaded again")
	}
}

func TestFailure(t *testing.T) {
	h := newTestHost(t)
	h.start("a")
	h.loading("a").finish <- problem.New(problem.DoesNotFit, "The model does not fit",
		"it needs 20.0 GB, 3.1 GB is free", "Close other apps.")
	err := h.Wait(t.Context())
	if p := problem.From(err); p.Code != problem.DoesNotFit {
		t.Errorf("Wait: %v", err)
	}
	s := h.expect(Failed, "a")
	want := Error{Code: problem.DoesNotFit, Message: "The model does not fit",
		Why: "it needs 20.0 GB, 3.1 GB is free", Fix: "Close other apps."}
	if s.Engine.Error == nil || *s.Engine.Error != want {
		t.Errorf("error %+v, want %+v", s.Engine.Error, want)
	}
	if _, err := h.Acquire(""); problem.From(err).Code != problem.NotRunning ||
		!strings.Contains(err.Error(), "3.1 GB is free") {
		t.Errorf("Acquire: %v", err)
	}
	h.run("a") // starting again works
	if s := h.expect(Ready, "a"); s.Engine.Error != nil {
		t.Errorf("after a successful load, State still has the error %+v", s.Engine.Error)
	}
}

func TestPanicWhileLoading(t *testing.T) {
	h := newTestHost(t)
	h.options.Open = func(context.Context, engine.Source, engine.Options) (Engine, error) {
		panic("odd weights")
	}
	h.start("a")
	if err := h.Wait(t.Context()); problem.From(err).Code != problem.Internal ||
		!strings.Contains(err.Error(), "odd weights") {
		t.Errorf("Wait: %v", err)
	}
	h.expect(Failed, "a")
	h.Stop()
	h.expect(Stopped, "")
}

func TestStartRefuses(t *testing.T) {
	h := newTestHost(t)
	for name, code := range map[string]problem.Code{"unknown": problem.ModelNotFound,
		"broken": problem.ModelBroken} {
		if err := h.Start(name); problem.From(err).Code != code {
			t.Errorf("Start(%q): %v, want %s", name, err, code)
		}
	}
	h.expect(Stopped, "")
}

func TestAcquire(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.Requests = func() RequestRules {
			return RequestRules{Aliases: func(id string) []string {
				return map[string][]string{"a": {"gpt-4o", "my-alias"}}[id]
			}}
		}
	})
	check := func(id string, want problem.Code, wantText string) {
		t.Helper()
		m, err := h.Acquire(id)
		if want == "" {
			if err != nil || m.ID != "a" || m.Engine == nil {
				t.Errorf("Acquire(%q) = %+v, %v", id, m, err)
			}
			return
		}
		if p := problem.From(err); p.Code != want || !strings.Contains(err.Error(), wantText) {
			t.Errorf("Acquire(%q): %v, want %s with %q", id, err, want, wantText)
		}
	}
	check("", problem.NotRunning, "No model is loaded")
	check("a", problem.NotRunning, "a is not loaded")
	check("x", problem.ModelNotFound, "a, b, gpt-4o, my-alias, headroom-demo")
	h.start("a")
	e := h.loading("a")
	check("", problem.Loading, "a is being loaded")
	check("a", problem.Loading, "0 % is done")
	check("b", problem.NotRunning, "b is not loaded")
	check("broken", problem.ModelNotFound, "broken cannot be loaded: It is broken")
	e.finish <- nil
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("", "", "")
	check("a", "", "")
	for _, name := range []string{"A", "a:latest", "openai/a", "openai/a:latest", "x/y/A",
		"default", "default_model", "My-Alias", "openai/my-alias:LATEST"} {
		check(name, "", "")
	}
	check("a:8b", problem.ModelNotFound, "the models are a, b")
	check("openai/b", problem.NotRunning, "a is running")
	check("b", problem.NotRunning, "a is running")
	check("x", problem.ModelNotFound, "Ask for a, which is running")
	if list := h.List(); len(list) != 1 || list[0].ID != "a" || list[0].ContextTokens != 4096 {
		t.Errorf("List: %+v", list)
	}
}

func TestModels(t *testing.T) {
	h := newTestHost(t)
	h.run("a")
	var lines []string
	for _, m := range h.Models(0).Models {
		line := m.ID + " " + string(m.Fits)
		for word, yes := range map[string]bool{" bundled": m.Bundled, " loaded": m.Loaded,
			" " + m.Error: m.Error != ""} {
			if yes {
				line += word
			}
		}
		lines = append(lines, line)
	}
	got, want := strings.Join(lines, "|"),
		"headroom-demo yes bundled|a yes loaded|b yes|broken no It is broken"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHistoryKeepsTenMinutes(t *testing.T) {
	h := newTestHost(t)
	at := time.Unix(1000, 0)
	for range 130 {
		h.addSample(at)
		at = at.Add(sampleInterval)
	}
	samples := h.State().Speed.History
	first, last := samples[0], samples[len(samples)-1]
	if len(samples) != 120 || first.AtUnixMs != 1000_000+10*5000 ||
		last.AtUnixMs != 1000_000+129*5000 || first.MemoryBytes <= 0 {
		t.Errorf("%d samples from %d to %d", len(samples), first.AtUnixMs, last.AtUnixMs)
	}
}

func TestSubscribe(t *testing.T) {
	h := newTestHost(t)
	changed, done := h.Subscribe()
	defer done()
	h.start("a")
	waitChanged(t, changed)
	e := h.loading("a")
	for len(changed) > 0 {
		<-changed
	}
	e.o.Progress(0.5)
	waitChanged(t, changed)
	e.o.Progress(0.501) // less than progressStep
	if len(changed) != 0 {
		t.Error("progress of 0.1 % is announced")
	}
	e.finish <- nil
	waitChanged(t, changed)
}

func waitChanged(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(timeout):
		t.Fatal("no change is announced")
	}
}

// TestManyClicks starts and stops models from several goroutines. The last call wins, and never are
// two models loading at once, which newTestHostWith checks.
func TestManyClicks(t *testing.T) {
	h := newTestHost(t)
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { // lets each load succeed, unless it is cancelled first
		for {
			select {
			case <-stop:
				return
			case e := <-h.opened:
				select {
				case e.finish <- nil:
				case <-time.After(time.Millisecond):
				}
			}
		}
	})
	var clicks sync.WaitGroup
	for range 4 {
		clicks.Go(func() {
			for i := range 25 {
				if err := h.Start([]string{"a", "b"}[i%2]); err != nil {
					t.Error(err)
				}
				h.State()
				_, _ = h.Acquire("")
				if i%5 == 0 {
					h.Stop()
				}
			}
		})
	}
	clicks.Wait()
	h.Stop()
	close(stop)
	helpers.Wait()
	h.expect(Stopped, "")
	for len(h.opened) > 0 {
		<-h.opened // cancelled before the helper received it
	}
	h.run("b")
	h.expect(Ready, "b")
}

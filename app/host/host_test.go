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

const patience = 20 * time.Second

// world is a host over a library of models "a" and "b". The test decides how each load ends.
type world struct {
	*Host
	t      *testing.T
	root   string
	opened chan *fakeEngine // an engine whose loading has begun

	mu   sync.Mutex
	open int // engines that are loading or loaded
	most int // of open, ever
}

// fakeEngine loads until the test sends an error on finish; nil means success.
type fakeEngine struct {
	world  *world
	dir    string
	o      engine.Options
	finish chan error
	closed chan struct{}

	mu      sync.Mutex
	stats   engine.Stats
	atClose func() // nil: nothing

	stored     engine.StoredModel
	remembered []engine.CachedPrefix
	share      float64
	forgotten  [][]int32 // {-1}: all
	recent     []engine.Finished
}

func (e *fakeEngine) Info() engine.Info {
	return engine.Info{Device: "a fake", KVFormat: "f16", StateFormat: "bf16",
		Description: engine.Description{ContextTokens: 4096}}
}
func (e *fakeEngine) Tokenizer() *tokenizer.Tokenizer { return nil }
func (e *fakeEngine) Template() *chat.Template        { return nil }
func (e *fakeEngine) Defaults() sample.Defaults       { return sample.Defaults{} }
func (e *fakeEngine) Submit(engine.Request) (*engine.Stream, error) {
	return nil, errors.New("not here")
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
	e.share = share
}
func (e *fakeEngine) ForgetAll() int64                      { return e.Forget([]int32{-1}) }
func (e *fakeEngine) CachedPrefixes() []engine.CachedPrefix { return e.remembered }
func (e *fakeEngine) Title(
	tokens []int32) string {
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
	e.world.count(-1)
	close(e.closed)
	return nil
}

func (w *world) count(by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open += by
	w.most = max(w.most, w.open)
}

func newWorld(t *testing.T) *world { return newWorldWith(t, func(*Options) {}) }

func newWorldWith(t *testing.T, change func(*Options)) *world {
	w := &world{t: t, root: t.TempDir(), opened: make(chan *fakeEngine, 8)}
	for _, name := range []string{"a", "b", "broken"} {
		_ = os.Mkdir(filepath.Join(w.root, name), 0o755)
		_ = os.WriteFile(filepath.Join(w.root, name, "config.json"), []byte(name), 0o644)
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
		Library: library.New([]string{w.root}, engine.Options{}, describe),
		Open: func(ctx context.Context, src engine.Source, o engine.Options) (Engine, error) {
			e := &fakeEngine{world: w, dir: filepath.Base(src.Dir), o: o, finish: make(chan error),
				closed: make(chan struct{})}
			w.count(1)
			w.opened <- e
			var err error
			select {
			case err = <-e.finish:
			case <-ctx.Done():
				err = ctx.Err()
			}
			if err != nil {
				w.count(-1)
				return nil, err
			}
			return e, nil
		},
	}
	change(&o)
	w.Host = New(o)
	t.Cleanup(func() {
		w.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.open != 0 || w.most > 1 {
			t.Errorf(
				"at the end %d engines are open; at most %d at once, never more than one may be",
				w.open, w.most)
		}
	})
	return w
}

func (w *world) start(name string) {
	w.t.Helper()
	if err := w.Start(name); err != nil {
		w.t.Fatal(err)
	}
}

// loading returns the engine that has started to load. It must be of that model.
func (w *world) loading(name string) *fakeEngine {
	w.t.Helper()
	select {
	case e := <-w.opened:
		if e.dir != name {
			w.t.Fatalf("%s is being loaded, want %s", e.dir, name)
		}
		return e
	case <-time.After(patience):
		w.t.Fatal("nothing is being loaded")
		return nil
	}
}

// run starts a model and completes its load.
func (w *world) run(name string) *fakeEngine {
	w.t.Helper()
	w.start(name)
	e := w.loading(name)
	e.finish <- nil
	if err := w.Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) expect(status Status, model string) State {
	w.t.Helper()
	s := w.State()
	if s.Engine.Status != status || s.Engine.Model != model {
		w.t.Errorf("the engine is %s with %q, want %s with %q", s.Engine.Status, s.Engine.Model,
			status, model)
	}
	sum := int64(0)
	for _, segment := range s.Memory.Segments {
		sum += segment.Bytes
	}
	if sum != s.Memory.TotalBytes {
		w.t.Errorf("the memory's segments add up to %d of %d", sum, s.Memory.TotalBytes)
	}
	return s
}

func waitClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(what + " did not happen")
	}
}

func TestStartAndStop(t *testing.T) {
	w := newWorld(t)
	w.expect(Stopped, "")
	w.start("a")
	e := w.loading("a")
	w.expect(Loading, "a")
	if e.o.AvailableBytes <= 0 {
		t.Error("the engine is not told how much memory it may take")
	}
	e.o.Progress(0.25)
	if s := w.expect(Loading, "a"); s.Engine.Progress != 0.25 {
		t.Errorf("progress %v, want 0.25", s.Engine.Progress)
	}
	e.finish <- nil
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := w.expect(Ready, "a")
	if s.Engine.Device != "a fake" || s.Engine.ContextTokens != 4096 ||
		s.Engine.CacheFormat != "f16" || s.Engine.StateFormat != "bf16" {
		t.Errorf("engine %+v", s.Engine)
	}
	e.mu.Lock()
	e.stats = engine.Stats{Running: 1, DecodeTokensPerSecond: 9, KVBytes: 10, KVUsedBytes: 4,
		Requests: []engine.RequestStats{{ID: "r1", Phase: "decode",
			Usage: engine.Usage{PromptTokens: 3, PromptDoneTokens: 3, CachedTokens: 1,
				CompletionTokens: 2}}}}
	e.mu.Unlock()
	s = w.expect(Busy, "a")
	if want := (Request{ID: "r1", Model: "a", Phase: "decode", PromptTokens: 3, PromptDoneTokens: 3,
		CachedTokens: 1, GeneratedTokens: 2}); len(s.Requests) != 1 || s.Requests[0] != want {
		t.Errorf("requests %+v, want %+v", s.Requests, want)
	}
	if s.Speed.DecodeTokensPerSecond != 9 {
		t.Errorf("speed %+v", s.Speed)
	}
	if !w.Cancel("r1") || w.Cancel("r2") {
		t.Error("Cancel does not reach the engine")
	}
	w.Stop()
	waitClosed(t, e.closed, "closing the engine")
	w.expect(Stopped, "")
	if w.Cancel("r1") {
		t.Error("a stopped host has a request")
	}
}

func TestStopWhileLoading(t *testing.T) {
	w := newWorld(t)
	w.start("a")
	w.loading("a")
	w.Stop()
	w.expect(Stopped, "")
	w.run("a") // and again
	w.expect(Ready, "a")
}

func TestSwitchWhileLoading(t *testing.T) {
	w := newWorld(t)
	w.start("a")
	w.loading("a")
	w.start("b")
	w.loading("b").finish <- nil
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(Ready, "b")
}

func TestSwitchUnloadsFirst(t *testing.T) {
	w := newWorld(t)
	a := w.run("a")
	w.start("b")
	b := w.loading("b")
	waitClosed(t, a.closed, "closing a before b is read")
	w.expect(Loading, "b")
	b.finish <- nil
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect(Ready, "b")
}

func TestStartingWhatRunsDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.run("a")
	w.start("a")
	w.start(filepath.Join(w.root, "a"))
	w.start("") // the last one
	w.expect(Ready, "a")
	if len(w.opened) != 0 {
		t.Error("it is loaded again")
	}
}

func TestFailure(t *testing.T) {
	w := newWorld(t)
	w.start("a")
	w.loading("a").finish <- problem.New(problem.DoesNotFit, "The model does not fit",
		"it needs 20.0 GB, 3.1 GB is free", "Close other apps.")
	err := w.Wait(t.Context())
	if p := problem.From(err); p.Code != problem.DoesNotFit {
		t.Errorf("Wait: %v", err)
	}
	s := w.expect(Failed, "a")
	if want := (Error{problem.DoesNotFit, "The model does not fit",
		"it needs 20.0 GB, 3.1 GB is free", "Close other apps."}); s.Engine.Error == nil ||
		*s.Engine.Error != want {
		t.Errorf("error %+v, want %+v", s.Engine.Error, want)
	}
	if _, err := w.Acquire(""); problem.From(err).Code != problem.NotRunning ||
		!strings.Contains(err.Error(), "3.1 GB is free") {
		t.Errorf("Acquire: %v", err)
	}
	w.run("a") // trying again is possible
	if s := w.expect(Ready, "a"); s.Engine.Error != nil {
		t.Errorf("the error stays: %+v", s.Engine.Error)
	}
}

func TestPanicWhileLoading(t *testing.T) {
	w := newWorld(t)
	w.options.Open = func(context.Context, engine.Source, engine.Options) (Engine,
		error) {
		panic("odd weights")
	}
	w.start("a")
	if err := w.Wait(t.Context()); problem.From(err).Code != problem.Internal ||
		!strings.Contains(err.Error(), "odd weights") {
		t.Errorf("Wait: %v", err)
	}
	w.expect(Failed, "a")
	w.Stop()
	w.expect(Stopped, "")
}

func TestStartRefuses(t *testing.T) {
	w := newWorld(t)
	for name, code := range map[string]problem.Code{"nobody": problem.ModelNotFound,
		"broken": problem.ModelBroken} {
		if err := w.Start(name); problem.From(err).Code != code {
			t.Errorf("Start(%q): %v, want %s", name, err, code)
		}
	}
	w.expect(Stopped, "")
}

func TestAcquire(t *testing.T) {
	w := newWorld(t)
	check := func(id string, want problem.Code, words string) {
		t.Helper()
		m, err := w.Acquire(id)
		if want == "" {
			if err != nil || m.ID != "a" || m.Engine == nil {
				t.Errorf("Acquire(%q) = %+v, %v", id, m, err)
			}
			return
		}
		if p := problem.From(err); p.Code != want || !strings.Contains(err.Error(), words) {
			t.Errorf("Acquire(%q): %v, want %s with %q", id, err, want, words)
		}
	}
	check("", problem.NotRunning, "No model is loaded")
	check("a", problem.NotRunning, "a is not loaded")
	check("x", problem.ModelNotFound, "headroom-demo, a, b")
	w.start("a")
	e := w.loading("a")
	check("", problem.Loading, "a is being loaded")
	check("a", problem.Loading, "0 % is done")
	check("b", problem.NotRunning, "b is not loaded")
	e.finish <- nil
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("", "", "")
	check("a", "", "")
	check("A", "", "")
	check("b", problem.NotRunning, "a is running")
	check("x", problem.ModelNotFound, "Ask for a, which is running")
	if list := w.List(); len(list) != 1 || list[0].ID != "a" || list[0].ContextTokens != 4096 {
		t.Errorf("List: %+v", list)
	}
}

func TestModelsAreJudged(t *testing.T) {
	w := newWorld(t)
	w.run("a")
	var got []string
	for _, m := range w.Models(0).Models {
		line := m.ID + " " + string(m.Fits)
		for word, yes := range map[string]bool{" bundled": m.Bundled, " loaded": m.Loaded,
			" " + m.Error: m.Error != ""} {
			if yes {
				line += word
			}
		}
		got = append(got, line)
	}
	if want := "headroom-demo yes bundled|a yes loaded|b yes|broken no It is broken"; strings.Join(
		got, "|") != want {
		t.Errorf("got %q, want %q", strings.Join(got, "|"), want)
	}
}

func TestHistoryKeepsTenMinutes(t *testing.T) {
	w := newWorld(t)
	at := time.Unix(1000, 0)
	for range 130 {
		w.addSample(at)
		at = at.Add(historyStep)
	}
	h := w.State().Speed.History
	if len(h) != 120 || h[0].AtUnixMs != 1000_000+10*5000 || h[119].AtUnixMs != 1000_000+129*5000 ||
		h[0].MemoryBytes <= 0 {
		t.Errorf("%d samples from %d to %d", len(h), h[0].AtUnixMs, h[len(h)-1].AtUnixMs)
	}
}

func TestSubscribe(t *testing.T) {
	w := newWorld(t)
	changed, done := w.Subscribe()
	defer done()
	w.start("a")
	waitClosedOnce(t, changed)
	e := w.loading("a")
	for len(changed) > 0 {
		<-changed
	}
	e.o.Progress(0.5)
	waitClosedOnce(t, changed)
	e.o.Progress(0.501) // too little to show
	if len(changed) != 0 {
		t.Error("a progress of a thousandth is announced")
	}
	e.finish <- nil
	waitClosedOnce(t, changed)
}

func waitClosedOnce(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("no change is announced")
	}
}

// TestManyClicks starts and stops models from several goroutines. The last call wins, and the
// invariants that newWorld checks at the end hold.
func TestManyClicks(t *testing.T) {
	w := newWorld(t)
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { // lets each loading succeed, unless it is given up first
		for {
			select {
			case <-stop:
				return
			case e := <-w.opened:
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
				if err := w.Start([]string{"a", "b"}[i%2]); err != nil {
					t.Error(err)
				}
				w.State()
				_, _ = w.Acquire("")
				if i%5 == 0 {
					w.Stop()
				}
			}
		})
	}
	clicks.Wait()
	w.Stop()
	close(stop)
	helpers.Wait()
	w.expect(Stopped, "")
	for len(w.opened) > 0 {
		<-w.opened // given up before anybody looked
	}
	w.run("b")
	w.expect(Ready, "b")
}

package host

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/engine"
	"headroom/engine/problem"
)

// mortalEngine is a fakeEngine whose process the test can end.
type mortalEngine struct {
	*fakeEngine
	died   chan struct{}
	once   sync.Once
	limits chan engine.BlockStoreLimits
	levels chan struct{} // one for each change of the log's level that it was told
}

var errDied = problem.New(problem.Crashed, "It died", "it was killed", "")

func (e *mortalEngine) PID() int                                 { return os.Getpid() }
func (e *mortalEngine) Died() <-chan struct{}                    { return e.died }
func (e *mortalEngine) Cause() error                             { return errDied }
func (e *mortalEngine) SetStoreLimits(l engine.BlockStoreLimits) { e.limits <- l }
func (e *mortalEngine) FollowLogLevel()                          { e.levels <- struct{}{} }
func (e *mortalEngine) die() {
	e.once.Do(
		func() { close(e.died) })
}
func (
	e *mortalEngine) Close() error {
	e.die()
	return e.fakeEngine.Close()
}

// mortalWorld returns a world whose models run in worker processes.
func mortalWorld(t *testing.T) (w *world, loaded chan *mortalEngine) {
	loaded = make(chan *mortalEngine, 8)
	w = newWorldWith(t, func(o *Options) {
		o.ReloadPause = time.Millisecond
		plain := o.Open
		o.Open = func(ctx context.Context, src engine.Source, eo engine.Options) (Engine, error) {
			e, err := plain(ctx, src, eo)
			if err != nil {
				return nil, err
			}
			m := &mortalEngine{fakeEngine: e.(*fakeEngine), died: make(chan struct{}),
				limits: make(chan engine.BlockStoreLimits, 1), levels: make(chan struct{}, 1)}
			loaded <- m
			return m, nil
		}
	})
	return w, loaded
}

// up completes the current load and waits until the model is ready.
func (w *world) up(name string, loaded chan *mortalEngine) *mortalEngine {
	w.t.Helper()
	w.loading(name).finish <- nil
	m := <-loaded
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	if err := w.Wait(ctx); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// A model whose process ends is loaded again. Requests wait for it meanwhile, and the state says
// what happened.
func TestCrashReloads(t *testing.T) {
	w, loaded := mortalWorld(t)
	w.start("a")
	first := w.up("a", loaded)
	first.die()
	again := w.loading("a")
	<-first.closed // the old one is gone before the new one is read
	s := w.State()
	if n := s.Engine.Notice; s.Engine.Status != Loading || n == nil || n.Code != problem.Crashed ||
		n.Why != "it was killed" || !strings.Contains(n.Message, "a crashed") {
		t.Errorf("while it is loaded again: %+v", s.Engine)
	}
	answered := make(chan error)
	go func() {
		_, err := w.Wake(t.Context(), "a")
		answered <- err
	}()
	again.finish <- nil
	if err := <-answered; err != nil {
		t.Errorf("a request that waits: %v", err)
	}
	if s := w.State(); s.Engine.Status != Ready || s.Engine.Notice == nil {
		t.Errorf("when it runs again: %+v", s.Engine)
	}
	<-loaded
	w.start("b") // another beginning
	w.up("b", loaded)
	if s := w.State(); s.Engine.Notice != nil {
		t.Errorf("another model has the notice %+v", s.Engine.Notice)
	}
}

// After the third crash within minutes the model stays stopped, with the reason. Starting it by
// hand allows all attempts again.
func TestCrashesEndReloading(t *testing.T) {
	w, loaded := mortalWorld(t)
	for range 2 {
		w.start("a")
		w.up("a", loaded).die()
		w.up("a", loaded).die()
		w.loading("a").finish <- errDied // dying while it is loaded counts too
		changed, done := w.Subscribe()
		for w.State().Engine.Status != Failed {
			<-changed
		}
		done()
		s := w.State().Engine
		if s.Error == nil || s.Error.Code != problem.Crashed ||
			!strings.Contains(s.Error.Message, "3 times in 5 minutes") ||
			s.Error.Why != "it was killed" || s.Notice != nil {
			t.Errorf("given up: %+v, %+v", s, s.Error)
		}
		if _, err := w.Wake(t.Context(), "a"); problem.From(err).Code != problem.NotRunning ||
			!strings.Contains(err.Error(), "3 times") {
			t.Errorf("a request then: %v", err)
		}
	}
}

// A first load that fails is not tried again: the start fails with the reason.
func TestCrashInTheFirstLoading(t *testing.T) {
	w, _ := mortalWorld(t)
	w.start("a")
	w.loading("a").finish <- errDied
	if err := w.Wait(t.Context()); !errors.Is(err, errDied) {
		t.Errorf("got %v, want %v", err, errDied)
	}
}

// Stop cancels the wait for the next attempt.
func TestStopBetweenAttempts(t *testing.T) {
	w, loaded := mortalWorld(t)
	w.Host.options.ReloadPause = time.Hour
	w.start("a")
	w.up("a", loaded).die()
	changed, done := w.Subscribe()
	defer done()
	for w.State().Engine.Status != Loading {
		<-changed
	}
	w.Stop()
	if s := w.State().Engine; s.Status != Stopped || s.Notice != nil {
		t.Errorf("stopped: %+v", s)
	}
}

// Changed cache limits reach the worker process, which has the cache open too.
func TestLimitsReachTheProcess(t *testing.T) {
	w, loaded := mortalWorld(t)
	w.Host.cache.open(cache.Options{Dir: t.TempDir()}, w.log)
	w.start("a")
	e := w.up("a", loaded)
	want := engine.BlockStoreLimits{MaxBytes: 1 << 30, MinFreeBytes: -1, DailyWriteBytes: -1}
	if err := w.SetCacheLimits(want); err != nil {
		t.Fatal(err)
	}
	if got := <-e.limits; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A changed log level reaches the worker process too.
func TestLogLevelReachesTheProcess(t *testing.T) {
	w, loaded := mortalWorld(t)
	w.FollowLogLevel() // nobody is there
	w.start("a")
	e := w.up("a", loaded)
	w.FollowLogLevel()
	if len(e.levels) != 1 {
		t.Error("the process was not told")
	}
}

func TestCrashesCount(t *testing.T) {
	var c crashes
	at := time.Unix(1000, 0)
	for _, step := range []struct {
		after   time.Duration // the last one
		pause   time.Duration
		tooMany bool
	}{
		{0, time.Second, false},
		{time.Minute, 2 * time.Second, false},
		{crashTime - 1, 2 * time.Second, false}, // the first is forgotten
		{time.Second, 2 * time.Second, false},   // and the second
		{time.Second, 4 * time.Second, true},
	} {
		at = at.Add(step.after)
		c.add(at, "m", errDied)
		if got := c.pause(time.Second); got != step.pause || (c.tooMany() != nil) != step.tooMany {
			t.Errorf("%v later: a pause of %v, %v; want %v, too many: %t", step.after, got,
				c.tooMany(), step.pause, step.tooMany)
		}
		if said := c.notice(at) != nil; said == step.tooMany || c.notice(at.Add(crashTime)) != nil {
			t.Errorf("%v later: the notice is %v", step.after, c.notice(at))
		}
	}
}

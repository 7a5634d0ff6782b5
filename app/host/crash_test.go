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

// fakeProcess is a fakeEngine with a worker process that the test can end.
type fakeProcess struct {
	*fakeEngine
	died   chan struct{}
	once   sync.Once
	limits chan engine.BlockStoreLimits
	levels chan struct{} // receives each change of the log level
}

var errDied = problem.New(problem.Crashed, "It died", "it was killed", "")

func (e *fakeProcess) PID() int                                 { return os.Getpid() }
func (e *fakeProcess) Died() <-chan struct{}                    { return e.died }
func (e *fakeProcess) Cause() error                             { return errDied }
func (e *fakeProcess) SetStoreLimits(l engine.BlockStoreLimits) { e.limits <- l }
func (e *fakeProcess) FollowLogLevel()                          { e.levels <- struct{}{} }
func (e *fakeProcess) die() {
	e.once.Do(func() { close(e.died) })
}
func (e *fakeProcess) Close() error {
	e.die()
	return e.fakeEngine.Close()
}

// newProcessHost returns a host whose models run in worker processes.
func newProcessHost(t *testing.T) (h *testHost, loaded chan *fakeProcess) {
	loaded = make(chan *fakeProcess, 8)
	h = newTestHostWith(t, func(o *Options) {
		o.ReloadPause = time.Millisecond
		open := o.Open
		o.Open = func(ctx context.Context, src engine.Source, eo engine.Options) (Engine, error) {
			e, err := open(ctx, src, eo)
			if err != nil {
				return nil, err
			}
			p := &fakeProcess{fakeEngine: e.(*fakeEngine), died: make(chan struct{}),
				limits: make(chan engine.BlockStoreLimits, 1), levels: make(chan struct{}, 1)}
			loaded <- p
			return p, nil
		}
	})
	return h, loaded
}

// finishLoad lets the current load succeed and waits until the model is ready.
func (h *testHost) finishLoad(name string, loaded chan *fakeProcess) *fakeProcess {
	h.t.Helper()
	h.loading(name).finish <- nil
	p := <-loaded
	ctx, stop := context.WithTimeout(h.t.Context(), timeout)
	defer stop()
	if err := h.Wait(ctx); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// A model whose process crashed is loaded again. Meanwhile requests wait for it, and State reports
// the crash.
func TestCrashReloads(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.start("a")
	first := h.finishLoad("a", loaded)
	first.die()
	again := h.loading("a")
	<-first.closed // the old engine is closed before the new one loads
	s := h.State()
	if n := s.Engine.Notice; s.Engine.Status != Loading || n == nil || n.Code != problem.Crashed ||
		n.Why != "it was killed" || !strings.Contains(n.Message, "a crashed") {
		t.Errorf("while it is loaded again: %+v", s.Engine)
	}
	answered := make(chan error)
	go func() {
		_, err := h.Wake(t.Context(), "a")
		answered <- err
	}()
	again.finish <- nil
	if err := <-answered; err != nil {
		t.Errorf("a waiting request: %v", err)
	}
	if s := h.State(); s.Engine.Status != Ready || s.Engine.Notice == nil {
		t.Errorf("when it runs again: %+v", s.Engine)
	}
	<-loaded
	h.start("b") // Start forgets earlier crashes
	h.finishLoad("b", loaded)
	if s := h.State(); s.Engine.Notice != nil {
		t.Errorf("another model has the notice %+v", s.Engine.Notice)
	}
}

// After the third crash within crashTime, the model is not loaded again, and State has the reason.
// Start allows three more crashes.
func TestCrashesEndReloading(t *testing.T) {
	h, loaded := newProcessHost(t)
	for range 2 {
		h.start("a")
		h.finishLoad("a", loaded).die()
		h.finishLoad("a", loaded).die()
		h.loading("a").finish <- errDied // a crash during loading counts, too
		changed, done := h.Subscribe()
		for h.State().Engine.Status != Failed {
			<-changed
		}
		done()
		s := h.State().Engine
		if s.Error == nil || s.Error.Code != problem.Crashed ||
			!strings.Contains(s.Error.Message, "3 times in 5 minutes") ||
			s.Error.Why != "it was killed" || s.Notice != nil {
			t.Errorf("after three crashes: %+v, %+v", s, s.Error)
		}
		if _, err := h.Wake(t.Context(), "a"); problem.From(err).Code != problem.NotRunning ||
			!strings.Contains(err.Error(), "3 times") {
			t.Errorf("a request after that: %v", err)
		}
	}
}

// A crash during the first load is not retried: Wait returns the reason.
func TestCrashInTheFirstLoad(t *testing.T) {
	h, _ := newProcessHost(t)
	h.start("a")
	h.loading("a").finish <- errDied
	if err := h.Wait(t.Context()); !errors.Is(err, errDied) {
		t.Errorf("got %v, want %v", err, errDied)
	}
}

// Stop cancels the pause before a reload.
func TestStopBeforeReload(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.Host.options.ReloadPause = time.Hour
	h.start("a")
	h.finishLoad("a", loaded).die()
	changed, done := h.Subscribe()
	defer done()
	for h.State().Engine.Status != Loading {
		<-changed
	}
	h.Stop()
	if s := h.State().Engine; s.Status != Stopped || s.Notice != nil {
		t.Errorf("stopped: %+v", s)
	}
}

// Changed cache limits reach the worker process, which has the cache open, too.
func TestLimitsReachTheProcess(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.Host.cache.open(cache.Options{Dir: t.TempDir()}, h.log)
	h.start("a")
	e := h.finishLoad("a", loaded)
	want := engine.BlockStoreLimits{MaxBytes: 1 << 30, MinFreeBytes: -1, DailyWriteBytes: -1}
	if err := h.SetCacheLimits(want); err != nil {
		t.Fatal(err)
	}
	if got := <-e.limits; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A changed log level reaches the worker process.
func TestLogLevelReachesTheProcess(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.FollowLogLevel() // without a process it does nothing
	h.start("a")
	e := h.finishLoad("a", loaded)
	h.FollowLogLevel()
	if len(e.levels) != 1 {
		t.Error("the process did not get the log level")
	}
}

func TestCrashesCount(t *testing.T) {
	var c crashes
	at := time.Unix(1000, 0)
	for _, step := range []struct {
		after   time.Duration // since the last crash
		pause   time.Duration
		tooMany bool
	}{
		{0, time.Second, false},
		{time.Minute, 2 * time.Second, false},
		{crashTime - 1, 2 * time.Second, false}, // the first no longer counts
		{time.Second, 2 * time.Second, false},   // nor does the second
		{time.Second, 4 * time.Second, true},
	} {
		at = at.Add(step.after)
		c.add(at, "m", errDied)
		if got := c.pause(time.Second); got != step.pause || (c.tooMany() != nil) != step.tooMany {
			t.Errorf("%v later: a pause of %v, %v; want %v, too many: %t", step.after, got,
				c.tooMany(), step.pause, step.tooMany)
		}
		if hasNotice := c.notice(at) != nil; hasNotice == step.tooMany {
			t.Errorf("%v later: the notice is %v", step.after, c.notice(at))
		}
		if notice := c.notice(at.Add(crashTime)); notice != nil {
			t.Errorf("%v later, and after crashTime: the notice is %v", step.after, notice)
		}
	}
}

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
	died    chan struct{}
	once    sync.Once
	limits  chan engine.BlockStoreLimits
	levels  chan struct{} // receives each change of the log level
	silence error         // the result of Health
	mute    bool          // CachedPrefixesWithin has no current list
	ending  chan struct{} // receives a value at EndWithin
}

var errDied = problem.New(problem.Crashed, "It died", "it was killed", "")

func (e *fakeProcess) PID() int                   { return os.Getpid() }
func (e *fakeProcess) Died() <-chan struct{}      { return e.died }
func (e *fakeProcess) Cause() error               { return errDied }
func (e *fakeProcess) Health(time.Duration) error { return e.silence }
func (e *fakeProcess) EndWithin(time.Duration)    { e.ending <- struct{}{} }
func (e *fakeProcess) CachedPrefixesWithin(time.Duration) ([]engine.CachedPrefix, bool) {
	return e.prefixes, !e.mute
}
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
				limits: make(chan engine.BlockStoreLimits, 1), levels: make(chan struct{}, 1),
				ending: make(chan struct{}, 4)}
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

// A model that crashes again and again is loaded again and again, without a person: after two short
// pauses requests are refused with the reason and the time of the next attempt.
func TestCrashesNeverEndReloading(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.start("a")
	h.finishLoad("a", loaded).die()
	h.finishLoad("a", loaded).die()
	h.loading("a").finish <- errDied // a crash during loading counts, too
	h.waitFor(Failed)
	s := h.State().Engine
	if s.Error == nil || s.Error.Code != problem.Crashed || s.RetryAtUnixMs == 0 ||
		!strings.Contains(s.Error.Message, "3 times in a row") ||
		s.Error.Why != "it was killed" || s.Notice != nil ||
		!strings.Contains(s.Error.Fix, "loaded again at") {
		t.Errorf("after three crashes: %+v, %+v", s, s.Error)
	}
	_, err := h.Wake(t.Context(), "a")
	if p := problem.From(err); p.Code != problem.Crashed || p.RetryAfter < time.Second ||
		!strings.Contains(p.Fix, "loaded again at") || p.Why != "it was killed" {
		t.Errorf("a request after that: %v, again after %v", err, p.RetryAfter)
	}
	for range 3 {
		h.finishLoad("a", loaded).die() // the pause has ended by itself
	}
	h.waitFor(Failed)
	h.start("a") // a person does not wait
	h.finishLoad("a", loaded)
	if s := h.State().Engine; s.Status != Ready || s.RetryAtUnixMs != 0 {
		t.Errorf("after Start: %+v", s)
	}
	if h.Crashes() != 6 {
		t.Errorf("%d crashes, want 6", h.Crashes())
	}
}

// waitFor waits until the engine has this status.
func (h *testHost) waitFor(status Status) {
	h.t.Helper()
	changed, done := h.Subscribe()
	defer done()
	late := time.After(timeout)
	for h.State().Engine.Status != status {
		select {
		case <-changed:
		case <-late:
			h.t.Fatalf("timeout: the engine is %s, not %s", h.State().Engine.Status, status)
		}
	}
}

// A load that fails for a passing lack, such as no free file descriptors, is tried again until it
// succeeds, even the first one, and even while requests are refused.
func TestLackPasses(t *testing.T) {
	h, loaded := newProcessHost(t)
	lack := &problem.Problem{Code: problem.LowResources, Message: "The process cannot be started",
		Why: "too many open files", RetryAfter: time.Second}
	h.start("a")
	for range 3 {
		h.loading("a").finish <- lack
	}
	h.waitFor(Failed)
	_, err := h.Wake(t.Context(), "a")
	if p := problem.From(err); p.Code != problem.NotRunning || p.RetryAfter < time.Second ||
		!strings.Contains(p.Why, "too many open files") || strings.Contains(err.Error(), "Quit") {
		t.Errorf("a request meanwhile: %v", err)
	}
	h.finishLoad("a", loaded)
	if s := h.State().Engine; s.Status != Ready || s.Notice != nil {
		t.Errorf("afterwards: %+v", s)
	}
}

// A model that ran before is tried again after any failure: memory may be free later, and its
// files may be on a disk that is away for a while.
func TestReloadFailures(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.start("a")
	h.finishLoad("a", loaded).die()
	h.loading("a").finish <- problem.New(problem.DoesNotFit, "a does not fit", "7 GB are free", "")
	h.waitFor(Failed)
	if _, err := h.Wake(t.Context(), "a"); problem.From(err).RetryAfter < time.Second ||
		!strings.Contains(err.Error(), "7 GB are free") {
		t.Errorf("a request meanwhile: %v", err)
	}
	h.finishLoad("a", loaded)
}

// Close and Stop end the attempts.
func TestStopEndsRetries(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.start("a")
	h.finishLoad("a", loaded).die()
	load := h.loading("a")
	h.Host.options.ReloadPause = time.Hour
	load.finish <- problem.New(problem.Internal, "It failed", "", "")
	h.waitFor(Failed)
	h.Stop()
	if s := h.State().Engine; s.Status != Stopped || s.Error != nil || s.RetryAtUnixMs != 0 {
		t.Errorf("stopped: %+v", s)
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

// A process that does not answer is shown as a notice and by Health, beside what was last known of
// it.
func TestSilentProcess(t *testing.T) {
	h, loaded := newProcessHost(t)
	h.start("a")
	e := h.finishLoad("a", loaded)
	if err := h.Health(time.Second); err != nil {
		t.Errorf("a process that answers: %v", err)
	}
	e.prefixes = []engine.CachedPrefix{{Tokens: []int32{1, 2}}}
	e.silence, e.mute = problem.New(problem.Unresponsive, "It is silent", "", ""), true
	if s := h.State().Engine; s.Status != Ready || s.Notice == nil ||
		s.Notice.Code != problem.Unresponsive {
		t.Errorf("a silent process: %+v", s)
	}
	if err := h.Health(time.Second); err != e.silence {
		t.Errorf("Health: %v", err)
	}
	list, err := h.Conversations()
	if err != nil || !list.Stale || len(list.Conversations) != 1 {
		t.Errorf("Conversations: %+v, %v", list, err)
	}
	h.Close()
	if len(e.ending) == 0 {
		t.Error("Close does not limit the time of the process")
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
	for n, step := range []struct{ lived, pause time.Duration }{
		{time.Hour, time.Second},
		{time.Second, 2 * time.Second},
		{healthyTime - 1, 2 * time.Minute},
		{0, 4 * time.Minute},
		{0, 8 * time.Minute},
		{0, 16 * time.Minute},
		{0, 32 * time.Minute},
		{0, 32 * time.Minute}, // the longest pause
		{healthyTime, time.Second},
	} {
		c.add(at, step.lived, "m", errDied)
		if got := crashPause(time.Second, c.inARow); got != step.pause {
			t.Errorf("crash %d: a pause of %v, want %v", n+1, got, step.pause)
		}
	}
	if c.notice(at) == nil || c.notice(at.Add(noticeTime)) != nil {
		t.Errorf("notices %v, and after noticeTime %v", c.notice(at), c.notice(at.Add(noticeTime)))
	}
	for n, want := range []time.Duration{2, 4, 8, 16, 32, 64, 120, 120} {
		if got := lackPause(time.Second, n+1); got != want*time.Second {
			t.Errorf("lack %d: a pause of %v, want %v s", n+1, got, want)
		}
	}
}

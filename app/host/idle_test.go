package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// An idle model is unloaded and stays in the list of models. The first request that names it loads
// it again; that request and later ones wait.
func TestRest(t *testing.T) {
	w := newWorldWith(t, func(
		o *Options) {
		o.IdleUnload = func() time.Duration { return time.Minute }
	})
	e := w.run("a")
	now := time.Now()
	w.unloadIdle(now) // the minute begins
	w.unloadIdle(now.Add(59 * time.Second))
	w.expect(Ready, "a")

	e.mu.Lock()
	e.stats = engine.Stats{Running: 1}
	e.mu.Unlock()
	w.unloadIdle(now.Add(time.Hour))
	w.expect(Busy, "a")
	e.mu.Lock()
	e.stats = engine.Stats{}
	e.mu.Unlock()
	w.unloadIdle(now.Add(time.Hour + 59*time.Second))
	w.expect(Ready, "a")
	w.unloadIdle(now.Add(time.Hour + time.Minute))
	<-e.closed
	w.expect(IdleUnloaded, "a")
	if list := w.List(); len(list) != 1 || list[0].ID != "a" {
		t.Errorf("/v1/models has %v", list)
	}
	if _, err := w.Acquire("a"); problem.From(err).Code != problem.NotRunning {
		t.Errorf("looking wakes it: %v", err)
	}
	if _, err := w.Wake(context.Background(), "b"); problem.From(err).Code != problem.NotRunning {
		t.Errorf("a request for another: %v", err)
	}
	w.expect(IdleUnloaded, "a")

	answered := make(chan error, 2)
	for range cap(answered) {
		go func() {
			m, err := w.Wake(context.Background(), "a")
			if err == nil && m.Engine == nil {
				err = errors.New("no engine")
			}
			answered <- err
		}()
	}
	e = w.loading("a")
	e.finish <- nil
	for range cap(answered) {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	w.expect(Ready, "a")
}

// A request whose client disconnects still loads the model. Stop cancels the load. If the load
// fails, waiting requests get the error.
func TestWakeEnds(t *testing.T) {
	idleModel := func(t *testing.T) *world {
		w := newWorldWith(t, func(
			o *Options) {
			o.IdleUnload = func() time.Duration { return time.Second }
		})
		e := w.run("a")
		w.unloadIdle(time.Now())
		w.unloadIdle(time.Now().Add(time.Minute))
		<-e.closed
		w.expect(IdleUnloaded, "a")
		return w
	}
	wake := func(ctx context.Context, w *world) chan error {
		answered := make(chan error, 1)
		go func() { _, err := w.Wake(ctx, ""); answered <- err }()
		return answered
	}
	t.Run("the client leaves", func(t *testing.T) {
		w := idleModel(t)
		ctx, leave := context.WithCancel(context.Background())
		answered := wake(ctx, w)
		e := w.loading("a")
		leave()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		e.finish <- nil
		if err := w.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		w.expect(Ready, "a")
	})
	t.Run("stopped", func(t *testing.T) {
		w := idleModel(t)
		answered := wake(context.Background(), w)
		w.loading("a")
		w.Stop()
		if err := <-answered; problem.From(err).Code != problem.NotRunning {
			t.Error(err)
		}
		w.expect(Stopped, "")
	})
	t.Run("failed", func(t *testing.T) {
		w := idleModel(t)
		answered := wake(context.Background(), w)
		e := w.loading("a")
		e.finish <- problem.New(problem.DoesNotFit, "It does not fit", "3.1 GB is free", "")
		if err := <-answered; err == nil {
			t.Error("no error")
		}
		w.expect(Failed, "a")
	})
	t.Run("stopped while it rests", func(t *testing.T) {
		w := idleModel(t)
		w.Stop()
		w.expect(Stopped, "")
	})
}

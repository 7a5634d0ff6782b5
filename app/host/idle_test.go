package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// An idle model is unloaded and stays in the list of models. The first request that names it loads
// it again; that request and later ones wait.
func TestIdleUnload(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.IdleUnload = func() time.Duration { return time.Minute }
	})
	e := h.run("a")
	now := time.Now()
	h.unloadIdle(now) // idle from here on
	h.unloadIdle(now.Add(59 * time.Second))
	h.expect(Ready, "a")

	e.mu.Lock()
	e.stats = engine.Stats{Running: 1}
	e.mu.Unlock()
	h.unloadIdle(now.Add(time.Hour))
	h.expect(Busy, "a")
	e.mu.Lock()
	e.stats = engine.Stats{}
	e.mu.Unlock()
	h.unloadIdle(now.Add(time.Hour + 59*time.Second))
	h.expect(Ready, "a")
	h.unloadIdle(now.Add(time.Hour + time.Minute))
	<-e.closed
	h.expect(IdleUnloaded, "a")
	if list := h.List(); len(list) != 1 || list[0].ID != "a" {
		t.Errorf("List: %v", list)
	}
	if _, err := h.Acquire("a"); problem.From(err).Code != problem.NotRunning {
		t.Errorf("Acquire loads the model: %v", err)
	}
	if _, err := h.Wake(context.Background(), "b"); problem.From(err).Code != problem.NotRunning {
		t.Errorf("a request for another model: %v", err)
	}
	h.expect(IdleUnloaded, "a")

	answered := make(chan error, 2)
	for range cap(answered) {
		go func() {
			m, err := h.Wake(context.Background(), "a")
			if err == nil && m.Engine == nil {
				err = errors.New("no engine")
			}
			answered <- err
		}()
	}
	e = h.loading("a")
	e.finish <- nil
	for range cap(answered) {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	h.expect(Ready, "a")
}

// TestUnloadAt: the list of models says when one is unloaded, and what memory it takes.
func TestUnloadAt(t *testing.T) {
	general := time.Minute
	h := newTestHostWith(t, func(o *Options) {
		o.IdleUnload = func() time.Duration { return general }
	})
	e := h.run("a")
	e.mu.Lock()
	e.stats = engine.Stats{WeightsBytes: 5, StateBytes: 2}
	e.mu.Unlock()
	for _, c := range []struct {
		general   time.Duration
		keepAlive *time.Duration
		want      time.Duration // after the last use; 0: never
	}{
		{time.Minute, nil, time.Minute},
		{time.Minute, new(time.Hour), time.Hour},
		{time.Minute, new(time.Duration(-1)), 0},
		{time.Minute, nil, 0}, // as the last request has said
		{0, new(time.Hour), time.Hour},
		{0, nil, time.Hour},
		{time.Minute, nil, time.Hour},
	} {
		general = c.general
		m, err := h.Wake(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		m.Release(c.keepAlive)
		one := h.List()[0]
		after := one.UnloadAt.Sub(before)
		if one.UnloadAt.IsZero() {
			after = 0
		}
		if (c.want == 0) != (after == 0) || after < c.want || after > c.want+time.Minute/2 ||
			one.MemoryBytes != 7 {
			t.Errorf("%+v: unloaded after %v, %d bytes", c, after, one.MemoryBytes)
		}
	}
}

// TestKeepAliveOfBusyModel: a request without a time changes nothing of what an earlier one has
// said. A model that is to go while others use it goes when they have ended.
func TestKeepAliveOfBusyModel(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.Requests = func() RequestRules { return RequestRules{Load: true} }
	})
	for _, last := range []string{"release", "sampler"} {
		e := h.run("a")
		var list []server.Model
		for range 3 {
			m, err := h.Wake(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, m)
		}
		list[0].Release(new(time.Duration(0)))
		list[1].Release(nil)
		h.expect(Ready, "a")
		if last == "sampler" { // the engine has yet to note that the request has ended
			e.mu.Lock()
			e.stats = engine.Stats{Running: 1}
			e.mu.Unlock()
		}
		list[2].Release(nil)
		if last == "sampler" {
			e.mu.Lock()
			e.stats = engine.Stats{}
			e.mu.Unlock()
			h.unloadIdle(time.Now())
		}
		select {
		case <-e.closed:
		case <-time.After(timeout):
			t.Fatalf("%s: the model stays loaded", last)
		}
		h.expect(IdleUnloaded, "a")
		e = h.run("a")
		m, err := h.Wake(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		m.Release(nil) // loaded again, it stays as long as the settings say
		h.expect(Ready, "a")
		h.Stop()
	}
}

// TestKeepAliveEnds: a model is unloaded when the time that a request has given is over, not only
// when idle models are looked for, every sampleInterval.
func TestKeepAliveEnds(t *testing.T) {
	h := newTestHostWith(t, func(o *Options) {
		o.Requests = func() RequestRules { return RequestRules{Load: true} }
	})
	begun := time.Now()
	e := h.run("a")
	m, err := h.Wake(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	m.Release(new(20 * time.Millisecond))
	select {
	case <-e.closed:
	case <-time.After(timeout):
		t.Fatal("the model stays loaded")
	}
	if took := time.Since(begun); took >= sampleInterval {
		t.Errorf("it was unloaded after %v", took)
	}
	h.expect(IdleUnloaded, "a")
}

// The load that a request has started continues if its client disconnects. Stop cancels it. If it
// fails, waiting requests get the error.
func TestWakeEnds(t *testing.T) {
	unloaded := func(t *testing.T) *testHost {
		h := newTestHostWith(t, func(o *Options) {
			o.IdleUnload = func() time.Duration { return time.Second }
		})
		e := h.run("a")
		h.unloadIdle(time.Now())
		h.unloadIdle(time.Now().Add(time.Minute))
		<-e.closed
		h.expect(IdleUnloaded, "a")
		return h
	}
	wake := func(ctx context.Context, h *testHost) chan error {
		answered := make(chan error, 1)
		go func() { _, err := h.Wake(ctx, ""); answered <- err }()
		return answered
	}
	t.Run("the client disconnects", func(t *testing.T) {
		h := unloaded(t)
		ctx, disconnect := context.WithCancel(context.Background())
		answered := wake(ctx, h)
		e := h.loading("a")
		disconnect()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		e.finish <- nil
		if err := h.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		h.expect(Ready, "a")
	})
	t.Run("stopped", func(t *testing.T) {
		h := unloaded(t)
		answered := wake(context.Background(), h)
		h.loading("a")
		h.Stop()
		if err := <-answered; problem.From(err).Code != problem.NotRunning {
			t.Error(err)
		}
		h.expect(Stopped, "")
	})
	t.Run("failed", func(t *testing.T) {
		h := unloaded(t)
		answered := wake(context.Background(), h)
		e := h.loading("a")
		e.finish <- problem.New(problem.DoesNotFit, "It does not fit", "3.1 GB is free", "")
		if err := <-answered; err == nil {
			t.Error("no error")
		}
		h.expect(Failed, "a")
	})
	t.Run("stopped while unloaded", func(t *testing.T) {
		h := unloaded(t)
		h.Stop()
		h.expect(Stopped, "")
	})
}

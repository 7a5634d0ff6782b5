package host

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/memory"
	"headroom/engine"
)

// pressedHost is a host on a machine whose memory pressure the test sets.
type pressedHost struct {
	*testHost
	pressure atomic.Pointer[memory.Pressure]
	allowed  atomic.Bool
}

func newPressedHost(t *testing.T) *pressedHost {
	h := &pressedHost{}
	h.allowed.Store(true)
	h.pressure.Store(&memory.Pressure{Level: memory.Normal})
	h.testHost = newTestHostWith(t, func(o *Options) {
		o.FreeUnderPressure = h.allowed.Load
		o.Meter = memory.NewMeter(func([]int) (memory.Reading, error) {
			return memory.Reading{TotalBytes: 64 << 30, AvailableBytes: 48 << 30,
				Pressure: *h.pressure.Load()}, nil
		})
	})
	return h
}

// at sets the level, lets the host look at that time, and waits until it has done what it does.
func (h *pressedHost) at(now time.Time, level memory.Level) {
	h.pressure.Store(&memory.Pressure{Level: level, SwapUsedBytes: 1 << 30})
	h.options.Meter.Forget(-1) // the next reading is a new one
	h.updatePressure(now)
	h.limitGrowth()
	h.background.processes.Wait()
}

// TestPressure: while memory is short, the caches stop to grow and return half of what they have,
// again after half a minute. At the critical level they return all of it, at once.
func TestPressure(t *testing.T) {
	h := newPressedHost(t)
	e := h.run("a")
	e.mu.Lock()
	e.stats = engine.Stats{KVBytes: 1000, KVUsedBytes: 200}
	e.mu.Unlock()
	now := time.Now()
	expect := func(what string, freed int64, kept ...int64) {
		t.Helper()
		e.mu.Lock()
		shrunk := slices.Clone(e.shrunk)
		e.mu.Unlock()
		if !slices.Equal(shrunk, kept) {
			t.Errorf("%s: shrunk to %d, want %d", what, shrunk, kept)
		}
		if got := h.State().Pressure.FreedBytes; got != freed {
			t.Errorf("%s: %d bytes were returned, want %d", what, got, freed)
		}
	}
	h.at(now, memory.Normal)
	expect("normal", 0)
	if e.growth.Load() == 0 {
		t.Error("normal: the caches may not grow")
	}
	h.allowed.Store(false)
	h.at(now, memory.Warning)
	expect("not allowed", 0)
	if got := e.growth.Load(); got != 0 {
		t.Errorf("short: the caches may grow by %d bytes", got)
	}
	h.allowed.Store(true)
	h.at(now, memory.Warning)
	expect("warning", 400, 400)
	h.at(now.Add(29*time.Second), memory.Warning)
	expect("within half a minute", 400, 400)
	h.at(now.Add(30*time.Second), memory.Warning)
	expect("after half a minute", 600, 400, 200)
	h.at(now.Add(31*time.Second), memory.Critical)
	expect("critical", 800, 400, 200, 0)
	h.at(now.Add(60*time.Second), memory.Normal)
	expect("normal again", 800, 400, 200, 0)
	h.at(now.Add(90*time.Second), memory.Warning)
	expect("short again", 0, 400, 200, 0, 0)
}

// TestUnloadAdvice: while memory is short, State says which models could be unloaded: idle ones
// before busy ones, with what each frees.
func TestUnloadAdvice(t *testing.T) {
	h := newPressedHost(t)
	a := h.run("a")
	b := h.run("b")
	for e, bytes := range map[*fakeEngine]int64{a: 100, b: 70} {
		e.mu.Lock()
		e.stats = engine.Stats{WeightsBytes: bytes, ReservedBytes: 5}
		e.mu.Unlock()
	}
	now := time.Now()
	h.at(now, memory.Normal)
	if got := h.State().Pressure.Advice; got == nil || len(got) > 0 {
		t.Errorf("normal: the advice is %+v, want an empty list", got)
	}
	h.at(now, memory.Warning)
	advice := func() (list []UnloadAdvice) {
		for _, u := range h.State().Pressure.Advice {
			u.LastUsedAtUnixMs = 0
			list = append(list, u)
		}
		return list
	}
	if got, want := advice(), []UnloadAdvice{{Model: "a", FreesBytes: 100},
		{Model: "b", FreesBytes: 70}}; !slices.Equal(got, want) {
		t.Errorf("the advice is %+v, want %+v", got, want)
	}
	a.mu.Lock()
	a.stats.Running = 1
	a.mu.Unlock()
	if got, want := advice(), []UnloadAdvice{{Model: "b", FreesBytes: 70},
		{Model: "a", FreesBytes: 100, Busy: true}}; !slices.Equal(got, want) {
		t.Errorf("with a request the advice is %+v, want %+v", got, want)
	}
	if got := h.State().Pressure; got.Level != memory.Warning || got.SwapUsedBytes != 1<<30 {
		t.Errorf("the state has %+v", got)
	}
}

// TestUnloadUnderPressure: at the critical level a model that is idle for a minute is unloaded, if
// the user allows it.
func TestUnloadUnderPressure(t *testing.T) {
	h := newPressedHost(t)
	e := h.run("a")
	now := time.Now()
	h.unloadIdle(now)
	h.at(now, memory.Warning)
	h.unloadIdle(now.Add(time.Hour))
	h.allowed.Store(false)
	h.at(now, memory.Critical)
	h.unloadIdle(now.Add(time.Hour))
	h.expect(Ready, "a")
	h.allowed.Store(true)
	h.at(now, memory.Critical)
	h.unloadIdle(now.Add(59 * time.Second))
	h.expect(Ready, "a")
	h.unloadIdle(now.Add(time.Minute))
	<-e.closed
	h.expect(IdleUnloaded, "a")
}

package host

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/app/power"
	"headroom/engine/draft"
)

// fakePower has a power state that the test sets.
type fakePower struct {
	mu     sync.Mutex
	state  power.State
	policy power.Policy
}

func (s *fakePower) read() (power.State, power.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.policy
}

func (s *fakePower) set(h *testHost, state power.State) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	h.updatePower()
}

// TestPower: the measures on battery and in heat apply to the running engine, the next engine and
// the cache. State lists them, and they end when the power state changes back.
func TestPower(t *testing.T) {
	s := &fakePower{policy: power.Policy{SaveOnBattery: true, ThrottleWhenHot: true}}
	h := newTestHostWith(t, func(o *Options) {
		o.Power = s.read
		o.Cache = cache.Options{Dir: filepath.Join(t.TempDir(), "blocks")}
	})
	first := h.run("a")
	kinds := func() (list []string) {
		for _, m := range h.State().Power.Measures {
			list = append(list, m.Kind)
		}
		return list
	}
	expect := func(what string, e *fakeEngine, dutyCycle float64, sparing bool, measures int) {
		t.Helper()
		e.mu.Lock()
		got, gain := e.dutyCycle, e.draftGain
		e.mu.Unlock()
		if saving := dutyCycle < 1; saving != (gain == draft.SavingGain) || !saving && gain != 0 {
			t.Errorf("%s: drafts need a gain of %g", what, gain)
		}
		gotSparing, gotKinds := h.cache.store().Limits().Sparing, kinds()
		if got != dutyCycle || gotSparing != sparing || len(gotKinds) != measures {
			t.Errorf("%s: duty cycle %g, sparing %t, measures %q; want %g, %t and %d measures",
				what, got, gotSparing, gotKinds, dutyCycle, sparing, measures)
		}
	}
	expect("plugged in and cool", first, 1, false, 0)
	s.set(h, power.State{Source: power.Battery, ThermalState: power.Critical})
	expect("hot on battery", first, 0.5, true, 4)
	if err := h.SetCacheLimits(h.cache.store().Limits()); err != nil {
		t.Fatal(err)
	}
	expect("hot on battery, after a change of the limits", first, 0.5, true, 4)
	second := h.run("b")
	expect("hot on battery, another model", second, 0.5, true, 4)
	hot := power.State{Source: power.Battery, ThermalState: power.Critical}
	if got := h.State().Power.State; got != hot {
		t.Errorf("State has %+v, want %+v", got, hot)
	}

	now := time.Now()
	h.unloadIdle(now)
	h.unloadIdle(now.Add(9 * time.Minute))
	h.expect(Ready, "b")
	h.unloadIdle(now.Add(10 * time.Minute))
	<-second.closed
	h.expect(IdleUnloaded, "b")
	third := h.run("a")
	s.set(h, power.State{Source: power.AC, ThermalState: power.Nominal})
	expect("plugged in again", third, 1, false, 0)
	h.unloadIdle(now.Add(20 * time.Minute))
	h.unloadIdle(now.Add(200 * time.Minute))
	h.expect(Ready, "a")
}

// TestIdleUnloadOnBattery: of the idle times in settings and power measure, the shorter one
// applies.
func TestIdleUnloadOnBattery(t *testing.T) {
	s := &fakePower{state: power.State{Source: power.Battery},
		policy: power.Policy{SaveOnBattery: true}}
	h := newTestHostWith(t, func(o *Options) {
		o.Power = s.read
		o.IdleUnload = func() time.Duration { return time.Minute }
	})
	e := h.run("a")
	now := time.Now()
	h.unloadIdle(now)
	h.unloadIdle(now.Add(time.Minute))
	<-e.closed
	h.expect(IdleUnloaded, "a")
}

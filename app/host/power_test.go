package host

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/app/power"
)

// socket is a fake power state that the test sets.
type socket struct {
	mu     sync.Mutex
	state  power.State
	policy power.Policy
}

func (s *socket) read() (power.State, power.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.policy
}

func (s *socket) set(w *world, state power.State) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	w.followPower()
}

// TestPower: measures on battery and in heat apply to the running engine, the next engine and the
// cache. They are in the state, and they end.
func TestPower(t *testing.T) {
	s := &socket{policy: power.Policy{SaveOnBattery: true, EaseWhenHot: true}}
	w := newWorldWith(t, func(o *Options) {
		o.Power = s.read
		o.Cache = cache.Options{Dir: filepath.Join(t.TempDir(), "blocks")}
	})
	first := w.run("a")
	kinds := func() (list []string) {
		for _, m := range w.State().Power.Measures {
			list = append(list, m.Kind)
		}
		return list
	}
	expect := func(what string, e *fakeEngine, share float64, sparing bool, measures int) {
		t.Helper()
		e.mu.Lock()
		got := e.share
		e.mu.Unlock()
		if got != share || w.cache.store().Limits().Sparing != sparing || len(kinds()) != measures {
			t.Errorf("%s: the engine works %g of the time, sparing %t, shown %q", what, got,
				w.cache.store().Limits().Sparing, kinds())
		}
	}
	expect("plugged in and cool", first, 1, false, 0)
	s.set(w, power.State{Source: power.Battery, Heat: power.Critical})
	expect("hot on battery", first, 0.5, true, 3)
	if err := w.SetCacheLimits(w.cache.store().Limits()); err != nil {
		t.Fatal(err)
	}
	expect("and its limits are changed", first, 0.5, true, 3)
	second := w.run("b")
	expect("another model", second, 0.5, true, 3)
	hot := power.State{Source: power.Battery, Heat: power.Critical}
	if got := w.State().Power.State; got != hot {
		t.Errorf("shown: %+v", got)
	}

	now := time.Now()
	w.unloadIdle(now)
	w.unloadIdle(now.Add(9 * time.Minute))
	w.expect(Ready, "b")
	w.unloadIdle(now.Add(10 * time.Minute))
	<-second.closed
	w.expect(IdleUnloaded, "b")
	third := w.run("a")
	s.set(w, power.State{Source: power.Mains, Heat: power.Nominal})
	expect("plugged in again", third, 1, false, 0)
	w.unloadIdle(now.Add(20 * time.Minute))
	w.unloadIdle(now.Add(200 * time.Minute))
	w.expect(Ready, "a")
}

// TestRestOnBattery: the shorter idle time of the settings and the battery measure applies.
func TestRestOnBattery(t *testing.T) {
	s := &socket{state: power.State{Source: power.Battery},
		policy: power.Policy{SaveOnBattery: true}}
	w := newWorldWith(t, func(o *Options) {
		o.Power = s.read
		o.IdleUnload = func() time.Duration { return time.Minute }
	})
	e := w.run("a")
	now := time.Now()
	w.unloadIdle(now)
	w.unloadIdle(now.Add(time.Minute))
	<-e.closed
	w.expect(IdleUnloaded, "a")
}

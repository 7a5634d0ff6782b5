package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"headroom/engine/guard"
)

// add adds a model of this size in GiB.
func (m *machine) add(name string, size int64) {
	m.t.Helper()
	m.sizes[name] = size
	if err := os.Mkdir(filepath.Join(m.root, name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.root, name, "config.json"), nil, 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.RescanModels()
}

// TestSmallBesideWaiting: a model that fits into free memory is loaded while one that was asked for
// before waits for the memory of busy ones, unless that one would then not fit.
func TestSmallBesideWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		large int64
		loads string
	}{"the large one fits beside it": {80, "b c a"}, "it would not": {85, "b a c"}} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.large, 60, 0)
			m.add("c", 10)
			end := m.request("b")
			m.advance(time.Hour)
			large, small := m.requestLater(t.Context(), "a"), m.requestLater(t.Context(), "c")
			if c.loads == "b c a" {
				(<-small).end()
				end()
				(<-large).end() // although the small model was loaded just now
			} else {
				if len(small) > 0 {
					t.Error("the small model takes memory of the one that waits")
				}
				end()
				(<-large).end()
				m.advance(time.Hour)
				(<-small).end()
			}
			m.expectLoads(c.loads)
		})
	}
}

// TestPatientRequests: a model that only requests of low priority wait for does not make new
// requests for others wait. It comes when those have ended, and after models of other requests.
func TestPatientRequests(t *testing.T) {
	m := newMachine(t, 50, 50, 0)
	m.add("c", 60)
	batch := guard.WithCaller(t.Context(), &guard.Caller{Priority: -1})
	end := m.request("a")
	m.advance(time.Hour)
	patient := m.requestLater(batch, "c")
	m.request("a")() // does not wait for the model of the batch
	other := m.requestLater(t.Context(), "b")
	end()
	one := <-other
	m.advance(time.Hour)
	m.settle()
	m.expectLoads("a b")
	one.end()
	(<-patient).end()
	m.expectLoads("a b c")
}

// TestPatientNoLonger: when a request of another key asks for the same model, that model comes as
// if there were no other.
func TestPatientNoLonger(t *testing.T) {
	m := newMachine(t, 50, 50, 0)
	batch := guard.WithCaller(t.Context(), &guard.Caller{Priority: -1})
	end := m.request("a")
	m.advance(time.Hour)
	patient := m.requestLater(batch, "b")
	own := m.requestLater(t.Context(), "b")
	m.advance(time.Second)
	later := m.requestLater(t.Context(), "a")
	if len(later) > 0 {
		t.Error("a request for the model that has to go does not wait")
	}
	end()
	(<-patient).end()
	(<-own).end()
	m.expectLoads("a b")
	m.advance(time.Hour)
	(<-later).end()
}

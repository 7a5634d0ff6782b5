package power

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"
)

// fakeSystem records when the assertion is taken and released. It fails the test if that happens
// twice in a row.
type fakeSystem struct {
	t      *testing.T
	events chan string

	mu   sync.Mutex
	held bool
	err  error
}

func newTestAwake(t *testing.T) (*fakeSystem, *Awake) {
	s := &fakeSystem{t: t, events: make(chan string, 1000)}
	return s, newAwake(s.take, slog.New(slog.DiscardHandler))
}

func (s *fakeSystem) take() (func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.t.Error("taken twice")
	}
	if s.err != nil {
		s.events <- "refused"
		return nil, s.err
	}
	s.held = true
	s.events <- "taken"
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.held {
			s.t.Error("released twice")
		}
		s.held = false
		s.events <- "released"
		return nil
	}, nil
}

func (s *fakeSystem) isHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// expect waits for the next event.
func (s *fakeSystem) expect(want string) {
	s.t.Helper()
	select {
	case got := <-s.events:
		if got != want {
			s.t.Fatalf("%s, expected %s", got, want)
		}
	case <-time.After(30 * time.Second):
		s.t.Fatalf("no event, expected %s", want)
	}
}

func TestAwake(t *testing.T) {
	s, a := newTestAwake(t)
	first := a.Begin()
	s.expect("taken")
	second := a.Begin()
	first()
	first() // a second call does nothing
	if !s.isHeld() {
		t.Error("released while a task runs")
	}
	second()
	s.expect("released")
	third := a.Begin()
	s.expect("taken")
	a.Close()
	s.expect("released")
	third()
	a.Begin()
	if len(s.events) > 0 || s.isHeld() {
		t.Error("an event after Close")
	}
}

// TestHandler: a POST request holds the assertion until its handler returns or panics.
func TestHandler(t *testing.T) {
	s, a := newTestAwake(t)
	defer a.Close()
	h := a.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		s.expect("taken")
		if r.URL.Path == "/panic" {
			panic("a panic in a handler")
		}
	}))
	serve := func(method, path string) {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	serve(http.MethodGet, "/v1/models")
	for _, path := range []string{"/v1/chat/completions", "/panic"} {
		serve(http.MethodPost, path)
		s.expect("released")
	}
	if len(s.events) > 0 {
		t.Error("a GET request kept the computer awake")
	}
}

// TestRefused: a task runs even if the system refuses the assertion; the next task tries again.
func TestRefused(t *testing.T) {
	s, a := newTestAwake(t)
	defer a.Close()
	s.err = errors.New("no logind")
	first := a.Begin()
	s.expect("refused")
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	second := a.Begin()
	s.expect("taken")
	first()
	second()
	s.expect("released")
}

// TestReleasedAfterConcurrentTasks: after concurrent tasks have ended in any order, the assertion
// is released.
func TestReleasedAfterConcurrentTasks(t *testing.T) {
	for range 50 {
		s, a := newTestAwake(t)
		var running sync.WaitGroup
		for range 20 {
			running.Go(func() {
				for range rand.IntN(10) {
					end := a.Begin()
					if rand.IntN(2) == 0 {
						runtime.Gosched()
					}
					end()
				}
			})
		}
		running.Wait()
		end := a.Begin() // loop sees this after all tasks above
		for !s.isHeld() {
			<-s.events
		}
		end()
		for s.isHeld() {
			<-s.events
		}
		a.Close()
		if s.isHeld() {
			t.Fatal("the assertion is held at the end")
		}
	}
}

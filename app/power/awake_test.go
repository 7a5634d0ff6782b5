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

// fakeSystem tells what is asked of it, and fails the test where it is asked for what is held, or
// given what is not.
type fakeSystem struct {
	t        *testing.T
	happened chan string

	mu   sync.Mutex
	held bool
	err  error
}

func newAwake(t *testing.T) (*fakeSystem, *Awake) {
	s := &fakeSystem{t: t, happened: make(chan string, 1000)}
	return s, begin(s.take, slog.New(slog.DiscardHandler))
}

func (s *fakeSystem) take() (func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.t.Error("taken twice")
	}
	if s.err != nil {
		s.happened <- "refused"
		return nil, s.err
	}
	s.held = true
	s.happened <- "taken"
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.held {
			s.t.Error("given back twice")
		}
		s.held = false
		s.happened <- "given back"
		return nil
	}, nil
}

func (s *fakeSystem) isHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// expect waits for what happens next.
func (s *fakeSystem) expect(want string) {
	s.t.Helper()
	select {
	case got := <-s.happened:
		if got != want {
			s.t.Fatalf("%s, expected %s", got, want)
		}
	case <-time.After(30 * time.Second):
		s.t.Fatalf("nothing happened, expected %s", want)
	}
}

func TestAwake(t *testing.T) {
	s, a := newAwake(t)
	first := a.Begin()
	s.expect("taken")
	second := a.Begin()
	first()
	first() // once counts
	if !s.isHeld() {
		t.Error("given back while something runs")
	}
	second()
	s.expect("given back")
	third := a.Begin()
	s.expect("taken")
	a.Close()
	s.expect("given back")
	third()
	a.Begin()
	if len(s.happened) > 0 || s.isHeld() {
		t.Error("something happens after Close")
	}
}

// A request holds while it is worked on, and one that panics does not for longer.
func TestHandler(t *testing.T) {
	s, a := newAwake(t)
	defer a.Close()
	h := a.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		s.expect("taken")
		if r.URL.Path == "/panic" {
			panic("as a handler may")
		}
	}))
	serve := func(method, path string) {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	serve(http.MethodGet, "/v1/models")
	for _, path := range []string{"/v1/chat/completions", "/panic"} {
		serve(http.MethodPost, path)
		s.expect("given back")
	}
	if len(s.happened) > 0 {
		t.Error("a look at the models keeps the computer awake")
	}
}

// A system that refuses keeps nobody from working, and is asked again by the next request.
func TestRefused(t *testing.T) {
	s, a := newAwake(t)
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
	s.expect("given back")
}

// Whatever begins and ends in whatever order: at the end nothing is held.
func TestNeverHeldWhenNothingRuns(t *testing.T) {
	for range 50 {
		s, a := newAwake(t)
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
		begun := a.Begin() // what follows was seen after all of the above
		for !s.isHeld() {
			<-s.happened
		}
		begun()
		for s.isHeld() {
			<-s.happened
		}
		a.Close()
		if s.isHeld() {
			t.Fatal("held at the end")
		}
	}
}

// Package power prevents idle sleep while requests run (awake.go). It also reads the power source
// and the thermal state of the computer (read_*.go), and decides on measures for them (state.go).
//
// A request only changes a counter. One goroutine takes and releases the system's sleep assertion
// (take_*.go), so that no request waits for the system. When a program ends or crashes, the system
// releases its assertion.
package power

import (
	"log/slog"
	"net/http"
	"sync"
)

// Awake prevents idle sleep while at least one task runs. Its methods may be called from any
// goroutine.
type Awake struct {
	take func() (release func() error, err error) // takes the system's sleep assertion
	log  *slog.Logger

	mu     sync.Mutex
	count  int // running tasks
	closed bool

	wake  chan struct{} // capacity 1: count or closed may have changed
	ended chan struct{}
}

// New returns an Awake without tasks. The caller must close it.
func New() *Awake { return newAwake(take, slog.Default()) }

func newAwake(take func() (func() error, error), log *slog.Logger) *Awake {
	a := &Awake{take: take, log: log, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go a.loop()
	return a
}

// Begin starts a task. The caller calls end when the task ends; further calls of end do nothing.
func (a *Awake) Begin() (end func()) {
	a.add(1)
	return sync.OnceFunc(func() { a.add(-1) })
}

func (a *Awake) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count += n
	a.wakeLoop()
}

// wakeLoop makes loop check the count. The caller holds mu.
func (a *Awake) wakeLoop() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Handler returns next, wrapped so that each POST request is a task. The task also ends if next
// panics.
func (a *Awake) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			defer a.Begin()()
		}
		next.ServeHTTP(w, r)
	})
}

// Close releases the assertion, even while tasks run.
func (a *Awake) Close() {
	a.mu.Lock()
	a.closed = true
	a.wakeLoop()
	a.mu.Unlock()
	<-a.ended
}

// loop takes and releases the assertion as the count changes, until Close.
func (a *Awake) loop() {
	defer close(a.ended)
	var release func() error // nil: no assertion is held
	for range a.wake {
		a.mu.Lock()
		wanted, closed := a.count > 0 && !a.closed, a.closed
		a.mu.Unlock()
		switch {
		case wanted && release == nil:
			var err error
			if release, err = a.take(); err != nil {
				release = nil // the next task tries again
				a.log.Debug("cannot prevent idle sleep", "err", err)
			}
		case !wanted && release != nil:
			if err := release(); err != nil {
				a.log.Warn("cannot release the sleep assertion; the computer may stay awake "+
					"until Headroom quits", "err", err)
			}
			release = nil
		}
		if closed {
			return
		}
	}
}

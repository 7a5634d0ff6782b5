// Package power keeps the computer from going to sleep by itself while a request is worked on, and
// at no other time (awake.go); and it tells where the power comes from and how hot the computer is,
// and what is done about that (state.go, read_*.go).
//
// Requests only count; one goroutine takes what the system gives against sleep, and gives it back
// (take_*.go), so that no request waits for the system. A program that ends, however it does, has
// it taken away by the system.
package power

import (
	"log/slog"
	"net/http"
	"sync"
)

// Awake keeps the computer awake while something that has begun has not ended. Its methods may be
// called from any goroutine.
type Awake struct {
	take func() (giveBack func() error, err error) // of the system
	log  *slog.Logger

	mu     sync.Mutex
	count  int // of what has begun and not ended
	closed bool

	wake  chan struct{} // capacity 1: the count may have become 0, or more than that
	ended chan struct{}
}

// New is one that holds nothing. Close ends it.
func New() *Awake { return begin(take, slog.Default()) }

func begin(take func() (func() error, error), log *slog.Logger) *Awake {
	a := &Awake{take: take, log: log, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go a.follow()
	return a
}

// Begin is called when work begins; what it returns, when that work ends.
func (a *Awake) Begin() (end func()) {
	a.add(1)
	return sync.OnceFunc(func() { a.add(-1) })
}

func (a *Awake) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count += n
	a.poke()
}

// poke has follow look. The caller holds mu.
func (a *Awake) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Handler is next, with the computer awake while it works on a request that asks for something to
// be done. A panic ends that too.
func (a *Awake) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			defer a.Begin()()
		}
		next.ServeHTTP(w, r)
	})
}

// Close gives back what is held, whatever has not ended.
func (a *Awake) Close() {
	a.mu.Lock()
	a.closed = true
	a.poke()
	a.mu.Unlock()
	<-a.ended
}

// follow brings what is held in line with the count until Close.
func (a *Awake) follow() {
	defer close(a.ended)
	var giveBack func() error // nil: nothing is held
	for range a.wake {
		a.mu.Lock()
		wanted, closed := a.count > 0 && !a.closed, a.closed
		a.mu.Unlock()
		switch {
		case wanted && giveBack == nil:
			var err error
			if giveBack, err = a.take(); err != nil {
				giveBack = nil // the next request asks again
				a.log.Debug("the computer may go to sleep while it answers", "err", err)
			}
		case !wanted && giveBack != nil:
			if err := giveBack(); err != nil {
				a.log.Warn("the computer may stay awake until Headroom ends", "err", err)
			}
			giveBack = nil
		}
		if closed {
			return
		}
	}
}

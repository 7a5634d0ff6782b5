package main

// The load: clients that follow conversations, clients that leave, and bursts. Each answer with
// status 200 must be whole and equal the answer alone. An error is allowed only while a fault is
// at work, or when it is an honest refusal of a busy server.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// clients is the number of concurrent clients. The server runs fewer at once, so some wait.
const clients = 6

// load runs clients against a server. Clients hold the gate for reading while they ask, so whoever
// locks it for writing has a server without requests.
type load struct {
	server *server
	talks  []talk
	gate   sync.RWMutex
	faulty atomic.Bool // a fault is at work, so requests may fail

	equal, refused, failed, left atomic.Int64

	mu     sync.Mutex
	broken []string // broken invariants, in order
}

// breach records a broken invariant.
func (l *load) breach(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = append(l.broken, time.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// breaches returns the broken invariants.
func (l *load) breaches() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.broken...)
}

// run runs the clients until ctx ends.
func (l *load) run(ctx context.Context, seed uint64) {
	var all sync.WaitGroup
	for i := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(100+i)))
		all.Go(func() {
			for ctx.Err() == nil {
				l.follow(ctx, r)
			}
		})
	}
	all.Wait()
}

// follow goes through a part of a random conversation. Sometimes the client leaves an answer.
func (l *load) follow(ctx context.Context, r *rand.Rand) {
	t := l.talks[r.IntN(len(l.talks))]
	from := r.IntN(len(t.turns))
	to := min(from+1+r.IntN(4), len(t.turns))
	for i := from; i < to && ctx.Err() == nil; i++ {
		l.gate.RLock()
		if r.IntN(6) == 0 {
			if l.server.leave(ctx, t.turns[i].body, r.IntN(12)) == nil {
				l.left.Add(1)
			}
		} else {
			l.check(ctx, fmt.Sprintf("%s, turn %d", t.name, i), t.turns[i])
		}
		l.gate.RUnlock()
	}
}

// check asks for one turn and compares its answer.
func (l *load) check(ctx context.Context, name string, t turn) {
	faulty := l.faulty.Load()
	a, err := l.server.ask(ctx, t.body)
	faulty = faulty || l.faulty.Load() // a fault that began or ended meanwhile counts
	var r *refusal
	switch {
	case err == nil && a.digest == t.digest:
		l.equal.Add(1)
	case err == nil:
		l.breach("%s: the answer differs from the one alone: %q", name, a.text)
	case ctx.Err() != nil:
	case errors.As(err, &r) && (r.status == http.StatusTooManyRequests ||
		r.status == http.StatusServiceUnavailable):
		l.refused.Add(1)
		pause(ctx, 200*time.Millisecond)
	case faulty:
		l.failed.Add(1)
		pause(ctx, 200*time.Millisecond)
	default:
		l.breach("%s: failed without a fault at work: %v", name, err)
		pause(ctx, time.Second)
	}
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

package server

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"headroom/engine/problem"
)

// TestDescriptors: connections never take more than half of the file descriptors.
func TestDescriptors(t *testing.T) {
	for _, c := range []struct {
		descriptors    uint64
		total, perPeer int
	}{{1, 1, 1}, {64, 32, 8}, {256, 128, 32}, {1024, 512, 128}, {1 << 20, 1024, 128},
		{1<<64 - 1, 1024, 128}} {
		total, perPeer := connectionLimits(c.descriptors)
		if total != c.total || perPeer != c.perPeer {
			t.Errorf("%d descriptors: %d connections, %d per peer; expected %d and %d",
				c.descriptors, total, perPeer, c.total, c.perPeer)
		}
	}
}

// TestPeerLimit: a peer of the network has its own limit, and an IPv6 network counts as one peer.
// This machine has only the limit of all connections.
func TestPeerLimit(t *testing.T) {
	l := limitConnections(nil, Limits{Connections: 10, PerPeer: 2}, nil)
	add := func(ip string) bool {
		c := &connection{list: l, peer: peerOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1})}
		_, ok := l.add(c)
		l.follow(c, http.StateActive)
		return ok
	}
	for i, c := range []struct {
		ip   string
		want bool
	}{{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false}, {"192.0.2.2", true},
		{"2001:db8::1", true}, {"2001:db8::2", true}, {"2001:db8::3", false},
		{"127.0.0.1", true}, {"127.0.0.1", true}, {"::1", true}} {
		if got := add(c.ip); got != c.want {
			t.Errorf("connection %d from %s: accepted %v, expected %v", i, c.ip, got, c.want)
		}
	}
}

// TestBudget: those who wait for memory are served in order, give up with their context, and are
// refused after a while.
func TestBudget(t *testing.T) {
	b := &budget{free: 10}
	if waited, err := b.take(t.Context(), 8, 0); waited || err != nil {
		t.Fatalf("waited %v, %v", waited, err)
	}
	var refused *problem.Problem
	if _, err := b.take(t.Context(), 5, time.Nanosecond); !errors.As(err, &refused) ||
		refused.Code != problem.Overloaded {
		t.Errorf("without memory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := b.take(ctx, 10, time.Hour); first <- err }()
	waitForClaims(b, 1)
	go func() { _, err := b.take(t.Context(), 1, time.Hour); second <- err }()
	waitForClaims(b, 2) // it would fit, but it is not its turn
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first claim: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second claim: %v", err)
	}
	b.give(8)
	b.give(1)
	if b.free != 10 {
		t.Errorf("%d bytes are free, expected 10", b.free)
	}
}

// TestLongestBodies: a body that may be as long as the limit never waits for memory that does not
// exist, with and without a declared length.
func TestLongestBodies(t *testing.T) {
	for _, n := range []int64{300 << 10, maxBodyBytes} {
		for _, declared := range []int64{n, -1} {
			ctx, cancel := context.WithTimeout(t.Context(), budgetWait/2)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, "POST", "/",
				bytes.NewReader(make([]byte, n)))
			r.ContentLength = declared
			b, err := ReadBody(r, maxBodyBytes)
			if err != nil {
				t.Errorf("%d bytes, declared %d: %v", n, declared, err)
				continue
			}
			if int64(len(b.Bytes)) != n {
				t.Errorf("%d bytes, declared %d: got %d", n, declared, len(b.Bytes))
			}
			b.Release()
		}
	}
}

func waitForClaims(b *budget, n int) {
	for {
		b.mu.Lock()
		waiting := len(b.waiting)
		b.mu.Unlock()
		if waiting == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestBuildBudget: a body that builds much waits for others, and a normal one does not.
func TestBuildBudget(t *testing.T) {
	large := bytes.Repeat([]byte("[],"), 1<<20)
	done, err := takeBuild(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	normal, err := takeBuild(t.Context(), []byte(`{"prompt":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	normal()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := takeBuild(ctx, large); err == nil {
		t.Error("two large bodies are built at once")
	}
	done()
	done, err = takeBuild(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	done()
}

// TestCollector: while requests have taken half of the budgets, the process has a memory limit, for
// what is in use without bodies. Then the earlier limit returns, which stays if it is lower, and
// memory goes back to the system.
func TestCollector(t *testing.T) {
	const inUse, bodies = 30 << 20, 4 << 20
	most := int64(inUse + allBudgets)
	tight := most + most/6 + spareMemory
	for _, c := range []struct{ usual, want int64 }{
		{math.MaxInt64, tight}, {most - 1, most - 1}} {
		limits := make(chan int64, 2)
		now, freed := c.usual, 0
		g := &collector{live: func() int64 { return inUse + bodies },
			set: func(limit int64) (before int64) {
				before, now = now, limit
				limits <- limit
				return before
			}, free: func() { freed++ }, later: func(time.Duration, func()) {}}
		last := func(n int) (limit int64) {
			for range n {
				select {
				case limit = <-limits:
				case <-time.After(10 * time.Second):
					t.Fatal("no limit was set")
				}
			}
			return limit
		}
		calls := 1
		if c.want < tight {
			calls = 2
		}
		for range 2 { // the second time like the first
			g.add(bodies, true)
			g.add(tightBytes-bodies-1, false)
			if g.tight {
				t.Error("the memory is tight too early")
			}
			g.add(1, false)
			if got := last(calls); got != c.want {
				t.Errorf("usual limit %d: the limit is %d, want %d", c.usual, got, c.want)
			}
			g.add(-tightBytes/2, false)
			if !g.tight {
				t.Error("half as much is not tight")
			}
			g.add(-1, false)
			if got := last(1); got != c.usual || g.tight {
				t.Errorf("usual limit %d: it is %d afterwards", c.usual, got)
			}
			g.add(-bodies, true)
			g.add(1-(tightBytes/2-bodies), false)
		}
		if g.taken != 0 || g.bodies != 0 {
			t.Errorf("%d and %d bytes are left", g.taken, g.bodies)
		}
		// It is no longer tight when the garbage has been collected, or again.
		g.limit(g.round)
		g.release(g.round)
		g.tight = true
		g.limit(g.round - 1)
		g.release(g.round)
		g.release(g.round - 1)
		if len(limits) > 0 || freed != 1 {
			t.Errorf("%d limits of an earlier time, memory was returned %d times", len(limits),
				freed)
		}
	}
}

// TestBudgetsAreWatched: the collector learns what is taken of each budget.
func TestBudgetsAreWatched(t *testing.T) {
	for _, c := range []struct {
		budget   *budget
		ofBodies int64
	}{{smallBodies, 1}, {largeBodies, 1}, {building, 0}} {
		before := [2]int64{garbage.taken, garbage.bodies}
		_, _ = c.budget.take(t.Context(), 5, time.Second)
		if got := [2]int64{garbage.taken - before[0], garbage.bodies - before[1]}; got !=
			[2]int64{5, 5 * c.ofBodies} {
			t.Errorf("taken and bodies: %v", got)
		}
		c.budget.give(5)
		if got := [2]int64{garbage.taken, garbage.bodies}; got != before {
			t.Errorf("taken and bodies afterwards: %v, want %v", got, before)
		}
	}
}

package tokenizer

// Gates bound the memory of encoding. Each model has its own, so a model whose tokenizer is slow
// delays no other model.

import (
	"context"
	"sync"
)

const (
	gateBytes  = 8 << 20   // of text that is encoded at the same time, in each gate
	tinyBytes  = 16 << 10  // a text up to this size does not wait
	smallBytes = 256 << 10 // a text up to this size does not wait behind larger ones
)

// gates are those of one model. Their zero value is not usable.
type gates struct{ small, large *gate }

func newGates() gates { return gates{newGate(gateBytes), newGate(gateBytes)} }

// enter waits until a text of size bytes may be encoded, or until ctx ends. After nil, the caller
// must call leave.
func (g *gates) enter(ctx context.Context, size int) error {
	switch {
	case size <= tinyBytes:
		return ctx.Err()
	case size <= smallBytes:
		return g.small.enter(ctx, size)
	}
	return g.large.enter(ctx, size)
}

// leave gives back what enter took.
func (g *gates) leave(size int) {
	switch {
	case size <= tinyBytes:
	case size <= smallBytes:
		g.small.leave(size)
	default:
		g.large.leave(size)
	}
}

// gate admits callers in the order in which they came, as long as their weights fit. A caller that
// is too heavy for the gate enters alone.
type gate struct {
	mu    sync.Mutex
	free  int
	total int
	queue []*waiter
}

type waiter struct {
	weight int
	ready  chan struct{} // closed when the waiter has entered
}

func newGate(total int) *gate { return &gate{free: total, total: total} }

// enter waits until weight fits or ctx ends. After nil, the caller must call leave.
func (g *gate) enter(ctx context.Context, weight int) error {
	weight = min(weight, g.total)
	g.mu.Lock()
	if len(g.queue) == 0 && weight <= g.free {
		g.free -= weight
		g.mu.Unlock()
		return nil
	}
	w := &waiter{weight, make(chan struct{})}
	g.queue = append(g.queue, w)
	g.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, other := range g.queue {
		if other == w {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			g.admit()
			return ctx.Err()
		}
	}
	g.free += weight // it entered at the same moment
	g.admit()
	return ctx.Err()
}

// leave gives back what enter took.
func (g *gate) leave(weight int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free += min(weight, g.total)
	g.admit()
}

func (g *gate) admit() {
	for len(g.queue) > 0 && g.queue[0].weight <= g.free {
		g.free -= g.queue[0].weight
		close(g.queue[0].ready)
		g.queue = g.queue[1:]
	}
}

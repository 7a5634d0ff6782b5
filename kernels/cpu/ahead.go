package cpu

// Idle threads prefetch. Between two products of a decoded token there are operators of a few
// microseconds that one thread does alone, while memory, for which the token waits, would be idle.
// Every pass runs the same operators in the same order, so what follows a product is known: an
// operator declares what each thread is about to read (Reads), and threads that idle afterwards
// prefetch the beginning of what followed the last time. A wrong guess costs some bandwidth and
// changes no result.

// Stretch is memory that is read from front to back.
type Stretch struct {
	// At is the address. It is no pointer, so it keeps nothing alive, and prefetching from memory
	// that is gone does nothing.
	At    uintptr
	Bytes int
}

// Reader is an operator that knows what it reads.
type Reader interface {
	// Stretches returns what a worker reads first, in order. None is empty.
	Stretches(c *Context, worker int) []Stretch
}

// reading is what a job reads, by worker, and what was read after it the last time. Only the owner
// uses next.
type reading struct {
	stretches [][]Stretch
	next      *reading
}

const maxReadings = 1 << 14 // jobs that are remembered

// Reads declares what the next call of Parallel reads. key identifies the job, the same in each
// pass: the address of what it reads.
func (c *Context) Reads(key uintptr, r Reader) {
	if c.Threads == 1 || !native {
		return
	}
	p := &c.pool
	now := p.readings[key]
	if now == nil {
		if p.readings == nil || len(p.readings) >= maxReadings {
			p.readings = map[uintptr]*reading{}
		}
		now = &reading{stretches: make([][]Stretch, c.Threads)}
		for w := range c.Threads {
			now.stretches[w] = r.Stretches(c, w)
		}
		p.readings[key] = now
	}
	if p.last != nil {
		p.last.next = now
	}
	p.last, p.ahead = now, now.next
}

// prefetchBytes is how much a worker prefetches before it looks for work again.
const prefetchBytes = 2 << 10

// prefetcher is a thread's position in what it prefetches.
type prefetcher struct {
	of   *reading
	left []Stretch
	done int // bytes of the first stretch left
}

// follow starts to prefetch what r reads, unless r is nil or being prefetched already.
func (f *prefetcher) follow(r *reading, worker int) {
	if r != nil && r != f.of {
		*f = prefetcher{of: r, left: r.stretches[worker]}
	}
}

// step prefetches a piece and reports whether there was one left.
func (f *prefetcher) step() bool {
	at, bytes := f.next()
	if bytes == 0 {
		return false
	}
	prefetch(at, bytes)
	return true
}

// next returns the next piece, of no bytes if nothing is left.
func (f *prefetcher) next() (at uintptr, bytes int) {
	if len(f.left) == 0 {
		return 0, 0
	}
	s := f.left[0]
	at, bytes = s.At+uintptr(f.done), min(prefetchBytes, s.Bytes-f.done)
	if f.done += bytes; f.done == s.Bytes {
		f.left, f.done = f.left[1:], 0
	}
	return at, bytes
}

package cpu

// Idle threads prefetch. Decoding a token is bound by memory. But between two large products, one
// thread alone runs operators of a few microseconds, and memory would be idle. Every pass runs the
// same operators in the same order, so the product that comes next is known: an operator declares
// what each thread is about to read (Reads), and threads that become idle after it prefetch the
// beginning of what was read next the last time. A wrong guess costs some bandwidth and changes no
// result.

// Stretch is memory that is read from front to back.
type Stretch struct {
	// At is the address. It is not a pointer and keeps nothing alive. Prefetching memory that has
	// been freed does nothing.
	At    uintptr
	Bytes int
}

// Reader is an operator that knows what it reads.
type Reader interface {
	// Stretches returns what a worker reads first, in order. None is empty.
	Stretches(c *Context, worker int) []Stretch
}

// reading holds what a job reads, by worker. The field next is the reading of the job that followed
// this job the last time; only the owner uses it.
type reading struct {
	stretches [][]Stretch
	next      *reading
}

const maxReadings = 1 << 14 // jobs that are remembered

// Reads declares what the next call of Parallel reads. key identifies the job. It must be the same
// in each pass: the address of what the job reads.
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

// step prefetches the next piece and reports whether there was one.
func (f *prefetcher) step() bool {
	at, bytes := f.next()
	if bytes == 0 {
		return false
	}
	prefetch(at, bytes)
	return true
}

// next returns the next piece. bytes is 0 if nothing is left.
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

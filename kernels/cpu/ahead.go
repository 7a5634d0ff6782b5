package cpu

// What threads read ahead while they have nothing to do. Between two products of a decoded token
// come operators of a few microseconds that one thread does alone, and memory, for which the token
// waits, would rest meanwhile. A pass is the same operators in the same order as the pass before,
// so what follows a product is known: an operator says what each thread is about to read (Reads),
// and who idles afterwards fetches the beginning of what came next the last time into its core's
// cache. A wrong guess costs some reading and changes no result.

// Stretch is memory that is read from front to back.
type Stretch struct {
	// not a pointer: nothing is kept alive by it, and fetching from memory that is gone does
	// nothing
	At    uintptr
	Bytes int
}

// Reader is an operator that knows what it reads.
type Reader interface {
	// Stretches are what a worker reads first, in order; none is empty.
	Stretches(c *Context, worker int) []Stretch
}

// reading is what a job reads, by worker, and what was read after it the last time. Only the owner
// looks at next.
type reading struct {
	stretches [][]Stretch
	next      *reading
}

const mostReadings = 1 << 14 // of jobs that are remembered

// Reads says what the next Parallel reads. key tells the job apart from others, the same in each
// pass: the address of what it reads.
func (c *Context) Reads(key uintptr, r Reader) {
	if c.Threads == 1 || !native {
		return
	}
	p := &c.pool
	now := p.readings[key]
	if now == nil {
		if p.readings == nil || len(p.readings) >= mostReadings {
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

// fetchBytes are asked for at a time, and then a worker looks for work again.
const fetchBytes = 2 << 10

// fetcher is where a thread has got to in reading ahead.
type fetcher struct {
	of   *reading
	left []Stretch
	done int // bytes of the first stretch left
}

// follow turns to what is read next, if that is not being fetched already; nil: nothing new is
// known.
func (f *fetcher) follow(r *reading, worker int) {
	if r != nil && r != f.of {
		*f = fetcher{of: r, left: r.stretches[worker]}
	}
}

// some fetches a little; false if there is nothing left.
func (f *fetcher) some() bool {
	at, bytes := f.piece()
	if bytes == 0 {
		return false
	}
	fetch(at, bytes)
	return true
}

// piece is what comes next; no bytes: nothing is left.
func (f *fetcher) piece() (at uintptr, bytes int) {
	if len(f.left) == 0 {
		return 0, 0
	}
	s := f.left[0]
	at, bytes = s.At+uintptr(f.done), min(fetchBytes, s.Bytes-f.done)
	if f.done += bytes; f.done == s.Bytes {
		f.left, f.done = f.left[1:], 0
	}
	return at, bytes
}

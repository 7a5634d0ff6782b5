package cpu

// The thread pool. A pass runs hundreds of operators of a few microseconds each, so workers stay on
// their system threads and spin between two operators. The caller computes as worker 0, and nothing
// is allocated.

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Task is work that threads share. CPURange does units [from, to) of a phase; worker, in
// [0, Threads), identifies the thread (Context.Local). Operators implement Task themselves, so
// passing one to the pool allocates nothing.
type Task interface {
	CPURange(c *Context, phase, worker, from, to int)
}

// Parallel does units [0, n) of t's phase on all threads, about grain at a time, and returns when
// they are done. Each thread starts with a contiguous range of units, so that it prefetches what it
// reads next, and steals from others when its range is done. The division varies from run to run,
// and results must not depend on it.
func (c *Context) Parallel(t Task, phase, n, grain int) {
	if grain < 1 {
		grain = 1
	}
	if n <= grain || c.Threads == 1 {
		if n > 0 {
			t.CPURange(c, phase, 0, 0, n)
		}
		return
	}
	c.pool.run(t, phase, n, grain)
}

// spins is how often an idle worker looks for work before it sleeps: about 100 µs. That is longer
// than the Go code between two operators, so workers sleep between requests and not within one.
const spins = 50_000

// pool runs one job at a time on workers that spin briefly for the next and then sleep. A worker
// joins a job while it is open. The owner closes it when no units are left, so a thread that
// the system has descheduled delays the others only if it has claimed units.
type pool struct {
	c *Context

	task     Task
	phase    int
	grain    int
	sections []section     // by worker
	state    atomic.Uint64 // job number << 16 | open << 15 | workers that joined
	sleeping atomic.Int32
	mu       sync.Mutex
	wake     *sync.Cond
	failure  atomic.Pointer[failure]
	stopped  atomic.Bool
	done     sync.WaitGroup

	// What the owner knows for prefetching.
	readings map[uintptr]*reading // by key
	last     *reading             // of the last job that declared what it reads
	ahead    *reading             // what is read after the current job; nil if unknown
	own      prefetcher
}

const openBit = 1 << 15

// section holds the remaining units of a worker: from << 32 | to. The worker takes from the front,
// and others steal the second half. A unit that left a section never returns to it, so a value that
// has not changed is still valid.
type section struct {
	units atomic.Uint64
	_     [120]byte // avoids false sharing; processors prefetch lines in pairs
}

// front takes up to grain units, and returns an empty range if none are left.
func (s *section) front(grain int) (from, to int) {
	for {
		units := s.units.Load()
		from, to = int(units>>32), int(uint32(units))
		if from >= to {
			return 0, 0
		}
		if left := to - from; left > grain {
			to = from + grain
		}
		if s.units.CompareAndSwap(units, units+uint64(to-from)<<32) {
			return from, to
		}
	}
}

// half takes the second half of the units, or all of them if they are no more than grain.
func (s *section) half(grain int) (from, to int) {
	for {
		units := s.units.Load()
		from, to = int(units>>32), int(uint32(units))
		if from >= to {
			return 0, 0
		}
		first := from
		if left := to - from; left > grain {
			from = to - max(grain, left/2)
		}
		if s.units.CompareAndSwap(units, uint64(first)<<32|uint64(from)) {
			return from, to
		}
	}
}

func (s *section) put(from, to int) { s.units.Store(uint64(from)<<32 | uint64(to)) }

func (p *pool) start(c *Context, workers int) {
	p.c = c
	p.sections = make([]section, workers+1)
	p.wake = sync.NewCond(&p.mu)
	for w := range workers {
		p.done.Add(1)
		go p.work(w + 1)
	}
}

func (p *pool) stop() {
	p.stopped.Store(true)
	p.mu.Lock()
	p.wake.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}

// run runs a job. Only the owner calls it.
func (p *pool) run(t Task, phase, n, grain int) {
	p.task, p.phase, p.grain = t, phase, grain
	for w, from := 0, 0; w < len(p.sections); w++ {
		to := n * (w + 1) / len(p.sections)
		p.sections[w].put(from, to)
		from = to
	}
	job := (p.state.Load()>>16 + 1) << 16
	p.state.Store(job | openBit)
	if p.sleeping.Load() > 0 {
		p.mu.Lock()
		p.wake.Broadcast()
		p.mu.Unlock()
	}
	p.own.follow(p.ahead, 0)
	p.take(0)
	for { // close the job, then wait for the workers that joined
		s := p.state.Load()
		if p.state.CompareAndSwap(s, s&^openBit) {
			break
		}
	}
	for i := 0; p.state.Load() != job; i++ {
		if !p.own.step() && i > spins {
			runtime.Gosched()
		}
	}
	p.task, p.ahead = nil, nil
	if f := p.failure.Swap(nil); f != nil {
		panic(f)
	}
}

// failure is the value that a task panicked with, and the stack.
type failure struct {
	value any
	stack []byte
}

func (f *failure) String() string { return fmt.Sprintf("%v\n%s", f.value, f.stack) }

// take does units until none are left. A panic ends the job early. run raises it again on the
// owner's goroutine, where it can be recovered; on a worker's goroutine it would end the process.
func (p *pool) take(worker int) {
	defer func() {
		if r := recover(); r != nil {
			p.failure.CompareAndSwap(nil, &failure{r, debug.Stack()})
			for w := range p.sections {
				p.sections[w].put(0, 0)
			}
		}
	}()
	mine := &p.sections[worker]
	for {
		for from, to := mine.front(p.grain); from < to; from, to = mine.front(p.grain) {
			p.task.CPURange(p.c, p.phase, worker, from, to)
		}
		if !p.steal(worker) {
			return
		}
	}
}

// steal moves half of another worker's units to this one, and reports whether there were any.
func (p *pool) steal(worker int) bool {
	for i := 1; i < len(p.sections); i++ {
		if from, to := p.sections[(worker+i)%len(p.sections)].half(p.grain); from < to {
			p.sections[worker].put(from, to)
			return true
		}
	}
	return false
}

func (p *pool) work(worker int) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine, and its affinity with it
	keepOnPerformanceCores(p.c.Threads)
	defer p.done.Done()
	last := uint64(0)
	var ahead prefetcher
	for idle := 0; ; idle++ {
		if p.stopped.Load() {
			return
		}
		s := p.state.Load()
		if s&openBit != 0 && s>>16 != last {
			if p.state.CompareAndSwap(s, s+1) {
				last = s >> 16
				ahead.follow(p.ahead, worker)
				p.take(worker)
				p.state.Add(^uint64(0))
				idle = 0
			}
			continue
		}
		if !ahead.step() && idle > spins {
			p.sleep(last)
			idle = 0
		}
	}
}

// sleep waits for a job with another number than last. The owner publishes a job before it reads
// p.sleeping, and a worker increments p.sleeping before it looks for a job, so one of the two
// always sees the other.
func (p *pool) sleep(last uint64) {
	p.mu.Lock()
	p.sleeping.Add(1)
	for !p.stopped.Load() {
		if s := p.state.Load(); s&openBit != 0 && s>>16 != last {
			break
		}
		p.wake.Wait()
	}
	p.sleeping.Add(-1)
	p.mu.Unlock()
}

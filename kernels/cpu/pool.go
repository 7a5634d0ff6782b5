package cpu

// Threads for operators. A pass runs hundreds of them, each some microseconds long, so workers stay
// on their system threads and spin between two; the caller works along as worker 0, and nothing is
// allocated.

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Task is work that threads share: CPURange does units [from, to) of a phase. Operators implement
// it on themselves, so that handing one to the pool allocates nothing. worker, in [0, Threads),
// tells threads apart (Context.Local).
type Task interface {
	CPURange(c *Context, phase, worker, from, to int)
}

// Parallel does units [0, n) of t's phase on all threads, about grain at a time, and returns when
// they are done. Each thread has a run of neighbouring units of its own, so that what it fetches
// ahead is what it reads next, and takes from others when it is through. The cut into ranges varies
// from run to run; results must not.
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

// spins is how often an idle worker looks for work before it sleeps: about 100 µs, longer than the
// Go code between two operators of a pass, so that workers sleep between requests and not inside
// one.
const spins = 50_000

// pool hands one job at a time to workers that spin briefly for the next, then sleep. A worker
// joins a job while it is open; the owner closes it when no units are left, so a thread that the
// system has put aside never holds the others up unless it took units itself.
type pool struct {
	c *Context

	task     Task
	phase    int
	grain    int
	sections []section     // by worker
	state    atomic.Uint64 // job number << 16 | open << 15 | workers inside
	sleeping atomic.Int32
	mu       sync.Mutex
	wake     *sync.Cond
	failure  atomic.Pointer[failure]
	stopped  atomic.Bool
	done     sync.WaitGroup

	readings map[uintptr]*reading // by key; the owner's, as last
	last     *reading             // of the last job that said what it reads
	ahead    *reading             // what will be read after the job at hand; nil: not known
	own      fetcher              // the owner's
}

const openBit = 1 << 15

// section is the units of a job that a worker has before it: from << 32 | to. Its owner takes from
// the front; others take the second half. A unit that has left a section never comes back to it, so
// a value that was read is still true if it is still there.
type section struct {
	units atomic.Uint64
	_     [120]byte // neighbours would take each other's lines, and processors fetch lines in pairs
}

// front takes up to grain units.
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

// half takes the second half, and all of it if that is no more than grain.
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

// run is called by the owner only.
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
	for { // close the job, then wait for those inside
		s := p.state.Load()
		if p.state.CompareAndSwap(s, s&^openBit) {
			break
		}
	}
	for i := 0; p.state.Load() != job; i++ {
		if !p.own.some() && i > spins {
			runtime.Gosched()
		}
	}
	p.task, p.ahead = nil, nil
	if f := p.failure.Swap(nil); f != nil {
		panic(f)
	}
}

// failure is what a task panicked with, and where.
type failure struct {
	value any
	stack []byte
}

func (f *failure) String() string { return fmt.Sprintf("%v\n%s", f.value, f.stack) }

// take does units until none are left. A panic among them ends the job early and is kept for run to
// raise again on the owner's goroutine, where somebody may recover it: on a worker's it would end
// the process.
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

// steal gives a worker half of what another has left; false if nobody has any.
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
	runtime.LockOSThread()
	defer p.done.Done()
	last := uint64(0)
	var ahead fetcher
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
		if !ahead.some() && idle > spins {
			p.sleep(last)
			idle = 0
		}
	}
}

// sleep waits for a job after last. The owner publishes a job before it looks at sleeping, and a
// worker announces itself before it looks for a job, so one of the two always sees the other.
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

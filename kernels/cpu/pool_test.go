package cpu

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// tally counts how often each unit was done, and detects two threads with one worker number. The
// counts are plain ints, so the race detector also checks that units happen before Parallel
// returns.
type tally struct {
	t     *testing.T
	phase int
	done  []int
	busy  [16]atomic.Bool
}

func (y *tally) CPURange(c *Context, phase, worker, from, to int) {
	if phase != y.phase || worker < 0 || worker >= c.Threads || from >= to {
		y.t.Errorf(
			"got phase %d, worker %d, units [%d, %d), expected phase %d and one of %d workers",
			phase, worker, from, to, y.phase, c.Threads)
		return
	}
	if !y.busy[worker].CompareAndSwap(false, true) {
		y.t.Errorf("two threads are worker %d", worker)
	}
	for u := from; u < to; u++ {
		y.done[u]++
	}
	y.busy[worker].Store(false)
}

func TestParallelDoesEveryUnitOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 5, 8, 16} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			c := NewContext(Options{Threads: threads})
			defer c.Close()
			r := rand.New(rand.NewPCG(1, uint64(threads)))
			y := &tally{t: t}
			for job := range 2000 {
				n, grain := r.IntN(200), r.IntN(20)
				if job%100 == 0 {
					n = 20_000
				}
				y.phase, y.done = job%3, make([]int, n)
				c.Parallel(y, y.phase, n, grain)
				for u, times := range y.done {
					if times != 1 {
						t.Fatalf("job %d of %d units at least %d at a time: unit %d done %d times",
							job, n, grain, u, times)
					}
				}
			}
		})
	}
}

// stuck does not finish its first unit before all others are done.
type stuck struct {
	n    int
	done atomic.Int32
}

func (s *stuck) CPURange(_ *Context, _, _, from, to int) {
	for u := from; u < to; u++ {
		for u == 0 && s.done.Load() < int32(s.n-1) {
			runtime.Gosched()
		}
		s.done.Add(1)
	}
}

// TestWorkersStealFromStuckThread checks that a stuck thread delays only its current unit.
// Otherwise the test would hang.
func TestWorkersStealFromStuckThread(t *testing.T) {
	for _, threads := range []int{2, 3, 5} {
		c := NewContext(Options{Threads: threads})
		for _, n := range []int{2, 3, 7, 100} {
			c.Parallel(&stuck{n: n}, 0, n, 1)
		}
		c.Close()
	}
}

// TestSectionFrontAndHalf checks that a worker takes units from the front of its section, and that
// others steal the second half.
func TestSectionFrontAndHalf(t *testing.T) {
	var s section
	s.put(10, 21)
	take := func(from, to int, takes func(int) (int, int), grain int) {
		t.Helper()
		if f, u := takes(grain); f != from || u != to {
			t.Errorf("got units [%d, %d), expected [%d, %d)", f, u, from, to)
		}
	}
	take(10, 12, s.front, 2)
	take(17, 21, s.half, 2) // of [12, 21)
	take(12, 14, s.front, 2)
	take(15, 17, s.half, 2) // of [14, 17): no less than the grain
	take(14, 15, s.half, 2) // all of it
	take(0, 0, s.half, 2)
	take(0, 0, s.front, 2)
}

// meeting finishes only when every worker is inside at once.
type meeting struct{ inside atomic.Int32 }

func (m *meeting) CPURange(c *Context, _, _, from, to int) {
	m.inside.Add(int32(to - from))
	for m.inside.Load() < int32(c.Threads) {
		runtime.Gosched()
	}
}

// waitAsleep waits until all workers sleep, which they do when there is no work.
func waitAsleep(c *Context) {
	for c.pool.sleeping.Load() < int32(c.Threads-1) {
		runtime.Gosched()
	}
}

// TestWorkersSleepAndWake checks that jobs wake sleeping workers. A lost wake-up would hang it.
func TestWorkersSleepAndWake(t *testing.T) {
	for _, threads := range []int{2, 3, 5} {
		c := NewContext(Options{Threads: threads})
		for range 20 {
			waitAsleep(c)
			for range 3 { // the first wakes sleepers, the next find them spinning
				c.Parallel(&meeting{}, 0, threads, 1)
			}
		}
		c.Close()
	}
}

// TestCloseEndsThreads checks that Close returns when every thread has ended, whether workers were
// starting, spinning or asleep.
func TestCloseEndsThreads(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 60 {
		c := NewContext(Options{Threads: 1 + i%5})
		switch i % 3 {
		case 1:
			c.Parallel(&meeting{}, 0, c.Threads, 1)
		case 2:
			waitAsleep(c)
		}
		c.Close()
	}
	for runtime.NumGoroutine() > before {
		// A goroutine is counted until shortly after its last statement.
		runtime.Gosched()
	}
}

func TestParallelDoesNotAllocate(t *testing.T) {
	c := NewContext(Options{Threads: 3})
	defer c.Close()
	y := &tally{t: t, done: make([]int, 100)}
	if n := testing.AllocsPerRun(100, func() { c.Parallel(y, 0, 100, 1) }); n != 0 {
		t.Errorf("got %g allocations for one Parallel, expected none", n)
	}
}

// scratch fills its worker's scratch and checks that it stays unchanged.
type scratch struct{ t *testing.T }

func (s scratch) CPURange(c *Context, _, worker, from, to int) {
	b := c.Local(worker, 1000+from)
	for i := range b[:1000+from] {
		b[i] = byte(worker)
	}
	runtime.Gosched()
	for i, x := range b[:1000+from] {
		if x != byte(worker) {
			s.t.Errorf("byte %d of worker %d's scratch was written by another", i, worker)
			return
		}
	}
}

func TestScratchIsPerWorker(t *testing.T) {
	c := NewContext(Options{Threads: 4})
	defer c.Close()
	c.Parallel(scratch{t}, 0, 5000, 1)
	for _, n := range []int{1, 100, 1 << 20, 10} {
		if b := c.Shared(n); len(b) < n {
			t.Errorf("Shared(%d): got %d bytes", n, len(b))
		}
	}
	if &c.Shared(10)[0] != &c.Shared(1 << 19)[0] {
		t.Error("Shared moved although its memory was large enough")
	}
}

// failing panics in one of its units.
type failing struct{ unit int }

func (f failing) CPURange(_ *Context, _, _, from, to int) {
	if from <= f.unit && f.unit < to {
		panic("bad unit")
	}
}

// TestPanicReachesOwner checks that the owner can recover from the panic of a unit, whichever
// thread took it, and that the next job runs completely.
func TestPanicReachesOwner(t *testing.T) {
	c := NewContext(Options{Threads: 4})
	defer c.Close()
	for unit := range 50 {
		func() {
			defer func() {
				if r := recover(); r == nil ||
					!strings.Contains(fmt.Sprint(r), "bad unit") {
					t.Errorf("unit %d: recovered %v, expected the task's panic", unit, r)
				}
			}()
			c.Parallel(failing{unit}, 0, 50, 1)
		}()
		c.Parallel(failing{-1}, 0, 50, 1)
	}
}

// TestGOMAXPROCSExceedsThreads checks that GOMAXPROCS exceeds the number of threads that compute
// (leaveRoom).
func TestGOMAXPROCSExceedsThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, threads := range []int{0, 1, 1000} {
		c := NewContext(Options{Threads: threads})
		if got, busy := runtime.GOMAXPROCS(0), min(c.Threads, runtime.NumCPU()); got <= busy {
			t.Errorf(
				"%d threads: got GOMAXPROCS %d, expected more than the %d threads that compute",
				c.Threads, got, busy)
		}
		c.Close()
	}
}

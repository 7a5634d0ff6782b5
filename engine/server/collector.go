package server

// The garbage collector while clients take much memory. By default it lets the heap grow to twice
// what is in use before it runs, so the budgets for bodies would cost twice their size, and what
// they have returned stays in the process for a while.

import (
	"runtime"
	"runtime/debug"
	gometrics "runtime/metrics"
	"sync"
	"time"
)

const (
	// allBudgets is the memory that requests may take.
	allBudgets = smallBodyBudget + largeBodyBudget + buildBudget
	// While tightBytes of the budgets are taken, and until less than half of that is, the process
	// has a memory limit. Normal requests, of which each takes kilobytes, do not get there.
	tightBytes = allBudgets / 2
	// spareMemory is what the limit allows beyond a sixth more than is in use: stacks, the
	// collector's own data, and garbage.
	spareMemory = 12 << 20
	// limitTime is the time until the limit is computed again: a model may be loaded meanwhile.
	limitTime = 10 * time.Second
	// calmTime after a tight time, what it has left is returned to the system.
	calmTime = time.Second
)

// collector sets a memory limit while requests take much memory. It is soft: the collector runs
// more often near it, at most half of the time. A nil *collector does nothing.
type collector struct {
	live func() int64                     // collects garbage and returns the bytes that are left
	set  func(limit int64) (before int64) // debug.SetMemoryLimit
	free func()                           // debug.FreeOSMemory
	// later calls f after a while: time.AfterFunc.
	later func(d time.Duration, f func())

	mu     sync.Mutex
	taken  int64 // of all budgets
	bodies int64 // of the budgets for bodies, which are in memory
	tight  bool
	round  int   // counts the beginnings of tight times
	before int64 // the limit to return to; 0: none has been set
}

var garbage = &collector{live: liveMemory, set: debug.SetMemoryLimit, free: debug.FreeOSMemory,
	later: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}

// liveMemory returns the bytes of the heap that are in use.
func liveMemory() int64 {
	runtime.GC()
	sample := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}}
	gometrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// add accounts for bytes that requests have taken of a budget; less than 0: returned.
func (c *collector) add(bytes int64, ofBodies bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken += bytes
	if ofBodies {
		c.bodies += bytes
	}
	switch {
	case !c.tight && c.taken >= tightBytes:
		c.tight = true
		c.round++
		go c.limit(c.round)
	case c.tight && c.taken < tightBytes/2:
		c.tight = false
		if c.before > 0 {
			c.set(c.before)
			c.before = 0
		}
		round := c.round
		c.later(calmTime, func() { c.release(round) })
	}
}

// release returns memory to the system, if no tight time has begun since the one of that round.
func (c *collector) release(round int) {
	c.mu.Lock()
	calm := !c.tight && c.round == round
	c.mu.Unlock()
	if calm {
		c.free()
	}
}

// limit sets the limit for what is in use without bodies, and all budgets. It does so again later,
// if the same tight time lasts.
func (c *collector) limit(round int) {
	live := c.live()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.tight || c.round != round {
		return
	}
	most := max(live-c.bodies, 0) + allBudgets
	before := c.set(most + most/6 + spareMemory)
	if c.before == 0 {
		c.before = before
	}
	if c.before < most { // GOMEMLIMIT is lower, on purpose
		c.set(c.before)
	}
	c.later(limitTime, func() { c.limit(round) })
}

package gpu

// Recording: parameters, hazards, and the two recorders that alternate.

import (
	"fmt"
	"time"

	"headroom/kernels"
	"headroom/metal"
	"headroom/metal/msl"
)

const (
	ringBytes = 256 * 1024 // parameters of one recorder's dispatches
	// maxDispatches is the number of dispatches in one commit. A decoded token has a few hundred. A
	// long prefill is committed in parts, so that the GPU starts early.
	maxDispatches = 1024
	// firstDispatches is the number of dispatches in the first commit to an idle GPU.
	firstDispatches = 64
	maxAccesses     = 256 // kept since the last barrier; one more costs a barrier
	paramAlign      = 16
)

// Context is where an operator records its dispatches.
type Context struct {
	m         metal.Device
	longest   uint64 // MaxBufferLength
	libraries map[*Source]metal.Library
	pipelines map[*kernel]*ready
	compiling map[*Source]time.Duration // compile time of each library
	recorders [2]recorder
	current   int
	op        string // the current operator, for messages
	accesses  []access
	bindings  [msl.MaxBuffers]metal.Binding
	scratch   scratch
	ints      []int32 // the memory of Table
	barriers  int     // recorded since the device was made
	commits   kernels.Ticket
	err       error
	lost      bool                       // err is that of work which the GPU did not complete
	seconds   float64                    // of the GPU, for all work that was waited for
	tuned     map[Key]int                // of SetTuned
	chosen    func(key Key, untuned int) // of OnChoice
	pace      pace
}

// recorder is Commands with a ring for their parameters.
type recorder struct {
	commands   metal.Commands
	params     metal.Buffer
	used       int // bytes of params
	dispatches int
	work       float64 // seconds by estimate of its dispatches; see pace
	committed  bool
	ticket     kernels.Ticket // of the commit
	tables     []tableAt
}

// access is memory that a dispatch since the last barrier reads or writes. It does not name the
// Metal buffer, because several of them may hold the same bytes.
type access struct {
	memory   *memory
	from, to int
	write    bool
}

// Facts returns the facts of the Metal device.
func (c *Context) Facts() metal.Facts { return c.m.Facts() }

// fail keeps the first error for Sync.
func (c *Context) fail(err error) {
	if c.err == nil && err != nil {
		if c.op != "" {
			err = fmt.Errorf("%s: %w", c.op, err)
		}
		c.err = err
	}
}

func (c *Context) dispatch(k *kernel, params []byte, g Grid, operands []Operand) {
	if c.err != nil || g.Groups.Count() == 0 {
		return
	}
	r := c.pipelines[k]
	if r == nil {
		var err error
		if r, err = c.prepare(k); err != nil {
			c.fail(err)
			return
		}
		c.pipelines[k] = r
	}
	if err := r.check(k, operands, g); err != nil {
		c.fail(err)
		return
	}
	if err := c.bind(operands); err != nil {
		c.fail(fmt.Errorf("%s: %s: %w", k.source.Name, k.name, err))
		return
	}
	rec := c.room(len(params) + tableBytes(operands))
	if rec == nil {
		return
	}
	if c.hazard(operands) {
		rec.commands.Barrier()
		c.barriers++
		c.accesses = c.accesses[:0]
	}
	c.addAccesses(operands)
	copy(rec.params.Bytes()[rec.used:], params)
	c.bindings[0] = metal.Binding{Buffer: rec.params, Offset: rec.used, Bytes: len(params)}
	rec.used += aligned(len(params))
	for i, o := range operands {
		if o.memory == nil && len(o.table) > 0 {
			c.bindings[i+1] = metal.Binding{Buffer: rec.params, Offset: rec.place(o.table),
				Bytes: 4 * len(o.table)}
		}
	}
	rec.commands.SetPipeline(r.pipeline)
	rec.commands.SetBuffers(0, c.bindings[:len(operands)+1]...)
	if g.ThreadgroupBytes > 0 {
		rec.commands.SetThreadgroupMemory(0, g.ThreadgroupBytes)
	}
	r.threads, r.threadgroupBytes = max(r.threads, g.Threads.Count()),
		max(r.threadgroupBytes, g.ThreadgroupBytes)
	rec.commands.Dispatch(c.op, g.Groups, g.Threads)
	rec.dispatches++
}

// bind sets the bindings of operands in memory, and clears all others.
func (c *Context) bind(operands []Operand) (err error) {
	for i, o := range operands {
		c.bindings[i+1] = metal.Binding{}
		if o.memory == nil {
			continue
		}
		if c.bindings[i+1], err = o.memory.binding(o.from, o.bytes); err != nil {
			return fmt.Errorf("operand %d: %w", i, err)
		}
	}
	return nil
}

// atMost returns the given number of bytes, or the length of the longest buffer if that is less.
func (c *Context) atMost(bytes int) int { return int(min(uint64(bytes), c.longest)) }

func aligned(bytes int) int { return (bytes + paramAlign - 1) / paramAlign * paramAlign }

// room returns a recorder that can take one more dispatch, or nil after an error. params is the
// size of the dispatch's parameters and tables in bytes.
func (c *Context) room(params int) *recorder {
	rec := &c.recorders[c.current]
	ring := len(rec.params.Bytes())
	if params > ring {
		c.fail(fmt.Errorf("parameters and tables of %d bytes, expected at most %d", params, ring))
		return nil
	}
	if !rec.committed && rec.used+params <= ring && rec.dispatches < c.mostDispatches() {
		return rec
	}
	c.commit()
	c.current ^= 1
	rec = &c.recorders[c.current]
	c.wait(rec)
	if c.err != nil {
		return nil
	}
	return rec
}

// mostDispatches returns how many dispatches the current recorder takes. If the GPU has nothing to
// do, it gets the first ones at once, and runs while the host records the others.
func (c *Context) mostDispatches() int {
	if c.recorders[c.current^1].committed {
		return maxDispatches
	}
	return firstDispatches
}

// hazard reports whether operands must wait for a dispatch recorded since the last barrier: one of
// the two writes memory that the other reads or writes.
func (c *Context) hazard(operands []Operand) bool {
	if len(c.accesses)+len(operands) > maxAccesses {
		return true
	}
	for _, o := range operands {
		if o.memory == nil || o.memory.readOnly {
			continue
		}
		for _, a := range c.accesses {
			if (o.write || a.write) && a.memory == o.memory && o.from < a.to &&
				a.from < o.from+o.bytes {
				return true
			}
		}
	}
	return false
}

// addAccesses keeps the accesses of a dispatch until the next barrier.
func (c *Context) addAccesses(operands []Operand) {
	for _, o := range operands {
		if o.memory != nil && !o.memory.readOnly {
			c.accesses = append(c.accesses,
				access{o.memory, o.from, o.from + o.bytes, o.write})
		}
	}
}

// commit commits the current recorder. Later commits see everything that it writes, so hazards do
// not cross commits.
func (c *Context) commit() {
	rec := &c.recorders[c.current]
	if rec.dispatches > 0 && !rec.committed {
		rec.commands.Commit(nil)
		c.commits++
		rec.committed, rec.ticket = true, c.commits
	}
	// Hazards do not cross commits, and equal passes then use the same scratch memory.
	c.accesses, c.scratch.next = c.accesses[:0], 0
}

// wait waits for a recorder's work and clears it.
func (c *Context) wait(rec *recorder) {
	if rec.committed {
		op := c.op // of the recording in progress
		c.op = ""
		if err := rec.commands.Wait(); err != nil {
			c.lost = true
			c.fail(err)
		}
		c.op = op
		took := rec.commands.GPUTime()
		c.seconds += took
		c.pace.observe(rec.work, took)
	}
	rec.used, rec.dispatches, rec.committed, rec.tables = 0, 0, false, rec.tables[:0]
	rec.work = 0
}

// sync waits for all work.
func (c *Context) sync() error {
	c.commit()
	return c.waitFor(c.commits)
}

// waitFor waits for all commits up to a ticket, the older recorder's first.
func (c *Context) waitFor(t kernels.Ticket) error {
	for _, rec := range [...]*recorder{&c.recorders[c.current^1], &c.recorders[c.current]} {
		if rec.committed && rec.ticket <= t {
			c.wait(rec)
		}
	}
	return c.err
}

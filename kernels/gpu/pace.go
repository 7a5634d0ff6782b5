package gpu

// macOS ends a command buffer that runs too long, for some seconds at most. So no command buffer,
// and no dispatch, should take longer than a bound. The time of an operator is estimated from the
// bytes and the arithmetic that it counts, times a factor that is measured: how much longer
// committed work took than its estimate. Work that would exceed the bound begins another command
// buffer. An operator that alone would exceed it is divided by rows. No bit depends on either.

import (
	"time"

	"headroom/kernels"
)

// DefaultBound is the usual bound of a command buffer, and of a dispatch.
const DefaultBound = 250 * time.Millisecond

// Divisible is an Op that can be computed in parts.
type Divisible interface {
	Op
	// Divide calls run for operators that together compute what this one does, one after the other.
	// There are about as many as parts, and fewer if the operator has too few rows. Every row has
	// the same bits as without Divide.
	Divide(parts int, run func(Op))
}

// The estimate before anything was measured: about what the slowest GPU with Metal 3 does in these
// kernels.
const (
	slowBytes      = 40e9   // per second
	slowOperations = 0.5e12 // per second
	slowDispatch   = 10e-6  // seconds of any other operator
)

// pace bounds the work of a command buffer.
type pace struct {
	bound float64 // seconds; 0: no bound
	// factor is the measured time of work by its estimate; 0: not measured.
	factor float64
}

// leastMeasured is the shortest time from which the factor is measured: less is mostly overhead.
const leastMeasured = 2e-3

// observe adjusts the factor to work that took so many seconds. Slower work counts at once, and
// faster work only halves the difference.
func (p *pace) observe(work, took float64) {
	if took < leastMeasured || work <= 0 {
		return
	}
	now := took / work
	p.factor = max(now, (now+p.factor)/2)
}

// expected returns the seconds that are expected of work.
func (p *pace) expected(work float64) float64 {
	if p.factor == 0 {
		return work
	}
	return work * p.factor
}

// estimate returns the seconds of an operator on a slow GPU.
func estimate(op Op) float64 {
	seconds := slowDispatch
	if t, ok := op.(kernels.TrafficCounter); ok {
		seconds += float64(t.TrafficBytes()) / slowBytes
	}
	if n, ok := op.(kernels.OperationCounter); ok {
		sum := n.Operations()
		seconds += float64(sum.Int8+sum.Float32) / slowOperations
	}
	return seconds
}

// runBounded records op within the bound.
func (c *Context) runBounded(op Op) {
	work := estimate(op)
	if parts := int(c.pace.expected(work)/c.pace.bound) + 1; parts > 1 {
		if d, ok := op.(Divisible); ok {
			d.Divide(parts, func(part Op) {
				kernels.MustCheck(part)
				c.record(part, estimate(part))
			})
			return
		}
	}
	c.record(op, work)
}

// record records an operator, in another command buffer if it would make this one too long.
func (c *Context) record(op Op, work float64) {
	rec := &c.recorders[c.current]
	if rec.dispatches > 0 && !rec.committed &&
		c.pace.expected(rec.work+work) > c.pace.bound {
		c.commit()
	}
	op.Metal(c)
	// An operator of many dispatches may have filled a recorder: its work counts for the last one.
	if rec = &c.recorders[c.current]; !rec.committed {
		rec.work += work
	}
}

// SetBound limits the time of a command buffer, as far as it can be estimated; 0: no limit, which a
// new device has. See DefaultBound.
func (d *Device) SetBound(bound time.Duration) { d.context.pace.bound = bound.Seconds() }

package recurrent

// GatedDelta on the CPU, alone or after a convolution. A unit of work is all tokens of a span for
// one key head, or for one part of the key head's value rows if there are more threads than heads.
// Units are independent, so threads never wait for each other, and the state and the normalized q
// and k stay in the core's cache. Tokens are processed in windows of windowRows: q, k, v and out of
// a window are gathered in the thread's scratch memory, and a convolution writes q, k and v there.
// Parts and windows do not affect the result, because the state is rounded after every token.
//
// Each channel of a convolution belongs to one key head, so a unit with a whole key head also
// updates the convolution's state. If a key head has several parts, each part computes q and k from
// the old state, and a second phase updates it when all parts are done.

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

const (
	windowRows     = 64
	unitsPerThread = 4
	unitGrain      = 1 << 18 // elements of the state, times tokens: about 10 µs of work
	// partStep divides the number of value rows of a part, so that parts share no scale of a
	// convolution's state.
	partStep = convGroup
)

// The phases of CPU.
const (
	deltaUnits    = iota
	deltaKeepKeys // update the convolution's state of q and k
)

// CPU implements kernels.Op.
func (o *GatedDelta) CPU(c *cpu.Context) {
	if keepsAny(o.Rounds) {
		inRounds(&o.Spans, &o.Rounds, func() { o.CPU(c) }, o.State)
		return
	}
	if len(o.Spans) == 0 {
		return
	}
	if c.ISA == cpu.Generic {
		c.Parallel(o, deltaUnits, len(o.Spans)*o.Hv, 1)
		return
	}
	tokens := 0
	for _, s := range o.Spans {
		tokens += s.Rows
	}
	heads, perHead := len(o.Spans)*o.Hk, o.Hv/o.Hk*o.Dv
	work := (tokens/len(o.Spans) + 1) * perHead * o.Dk // per key head
	parts := max(1, min((unitsPerThread*c.Threads+heads-1)/heads, work/unitGrain))
	o.partRows = roundUp((perHead+parts-1)/parts, partStep)
	o.parts = (perHead + o.partRows - 1) / o.partRows
	c.Parallel(o, deltaUnits, heads*o.parts, 1+unitGrain*o.parts/work)
	if o.conv != nil && o.parts > 1 {
		c.Parallel(o, deltaKeepKeys, heads, 1+4096/o.Dk)
	}
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// scratchBytes returns the size of a thread's scratch memory, which gated_delta.c lays out.
func (o *GatedDelta) scratchBytes() int {
	return 4 * windowRows * (2*roundUp(o.Dk, 16) + 2*o.Dv + 3)
}

// CPURange implements cpu.Task.
func (o *GatedDelta) CPURange(c *cpu.Context, phase, worker, from, to int) {
	switch {
	case phase == deltaKeepKeys:
		for u := from; u < to; u++ {
			o.keepKeys(c.ISA, o.Spans[u/o.Hk], u%o.Hk)
		}
	case c.ISA == cpu.Generic:
		for u := from; u < to; u++ {
			o.scalar(o.Spans[u/o.Hv], u%o.Hv)
		}
	default:
		o.units(c, worker, from, to)
	}
}

// units computes units [from, to). Unit u is part u%parts of key head u/parts%Hk of a span.
func (o *GatedDelta) units(c *cpu.Context, worker, from, to int) {
	perSpan := o.Hk * o.parts
	for u := from; u < to; { // the units of one span in one call
		end := min(to, (u/perSpan+1)*perSpan)
		o.nativeUnits(c, worker, o.Spans[u/perSpan], u%perSpan, (end-1)%perSpan+1)
		u = end
	}
}

// keepKeys updates the convolution's state of a key head's q and k to that after span s.
func (o *GatedDelta) keepKeys(isa cpu.ISA, s kernels.Span, head int) {
	q, k := head*o.Dk, (o.Hk+head)*o.Dk
	o.conv.nativeUpdate(isa, s, q, q+o.Dk)
	o.conv.nativeUpdate(isa, s, k, k+o.Dk)
}

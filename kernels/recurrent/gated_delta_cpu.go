package recurrent

// How GatedDelta runs on the CPU, alone or with the convolution before it. A unit of work is a key
// head of one span, or one of the parts of its value rows where there are more threads than heads,
// and all of the span's tokens: nothing that it computes is for others, so threads never wait for
// each other, and the state and what is made of q and k stay in its core's cache. Tokens pass in
// windows of windowRows, of which q, k, v and out are brought together in the thread's scratch; the
// convolution, if there is one, makes q, k and v there. Neither parts nor windows show in the
// result: between tokens the state has the slot's precision anyway.
//
// Each channel of a convolution belongs to one key head, so a unit that has all of a head leaves
// the convolution's state as it will be. Parts of a head each make q and k from the old state; when
// all have done so, it is written in a phase of its own.

import (
	"headroom/kernels"
	"headroom/kernels/cpu"
)

const (
	windowRows     = 64
	unitsPerThread = 4
	unitGrain      = 1 << 18 // elements of the state, times tokens: some 10 µs of work
	// parts have multiples of so many value rows: they share no scale of a convolution's state
	partStep = convGroup
)

// The phases of a pass.
const (
	deltaUnits = iota
	deltaKeepKeys
)

// CPU implements kernels.Op.
func (o *GatedDelta) CPU(c *cpu.Context) {
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
	work := (tokens/len(o.Spans) + 1) * perHead * o.Dk // of a key head
	parts := max(1, min((unitsPerThread*c.Threads+heads-1)/heads, work/unitGrain))
	o.partRows = roundUp((perHead+parts-1)/parts, partStep)
	o.parts = (perHead + o.partRows - 1) / o.partRows
	c.Parallel(o, deltaUnits, heads*o.parts, 1+unitGrain*o.parts/work)
	if o.conv != nil && o.parts > 1 {
		c.Parallel(o, deltaKeepKeys, heads, 1+4096/o.Dk)
	}
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// scratchBytes is what a thread needs, laid out as gated_delta.c says.
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

// units runs units [from, to): unit u is part u%parts of key head u/parts%Hk of a span.
func (o *GatedDelta) units(c *cpu.Context, worker, from, to int) {
	perSpan := o.Hk * o.parts
	for u := from; u < to; { // the units of one span in one call
		end := min(to, (u/perSpan+1)*perSpan)
		o.nativeUnits(c, worker, o.Spans[u/perSpan], u%perSpan, (end-1)%perSpan+1)
		u = end
	}
}

// keepKeys leaves the convolution's state of a key head's q and k as it is after span s.
func (o *GatedDelta) keepKeys(isa cpu.ISA, s kernels.Span, head int) {
	q, k := head*o.Dk, (o.Hk+head)*o.Dk
	o.conv.nativeKeep(isa, s, q, q+o.Dk)
	o.conv.nativeKeep(isa, s, k, k+o.Dk)
}

package recurrent

// How GatedDelta runs on the CPU. A unit of work is a key head of one span, or one of the parts of its value rows where there are more threads
// than heads, and all of the span's tokens: nothing that it computes is for others, so threads never wait for each other, and the state and what is made of
// q and k stay in its core's cache. Tokens pass in windows of windowRows, of which q, k, v and out are brought together in the thread's scratch.
// Neither parts nor windows show in the result: between tokens the state has the slot's precision anyway.

import "headroom/kernels/cpu"

const (
	windowRows     = 64
	unitsPerThread = 4
	unitGrain      = 1 << 18 // elements of the state, times tokens: some 10 µs of work
)

// CPU implements kernels.Op.
func (o *GatedDelta) CPU(c *cpu.Context) {
	if len(o.Spans) == 0 {
		return
	}
	heads := len(o.Spans) * o.Hk
	if c.ISA == cpu.Generic {
		c.Parallel(o, 0, len(o.Spans)*o.Hv, 1)
		return
	}
	perHead := o.Hv / o.Hk * o.Dv
	o.parts = min(max(1, (unitsPerThread*c.Threads+heads-1)/heads), (perHead+31)/32)
	tokens := 0
	for _, s := range o.Spans {
		tokens += s.Rows
	}
	perUnit := (tokens/len(o.Spans) + 1) * perHead / o.parts * o.Dk
	c.Parallel(o, 0, heads*o.parts, 1+unitGrain/perUnit)
}

// scratchBytes is what a thread needs, laid out as gated_delta.c says.
func (o *GatedDelta) scratchBytes() int {
	padded := (o.Dk + 15) &^ 15
	return 4 * windowRows * (2*padded + 2*o.Dv + 3)
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

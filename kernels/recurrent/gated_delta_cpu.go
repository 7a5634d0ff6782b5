package recurrent

// How GatedDelta runs on the CPU. Rows pass in windows of windowRows. Phase prepare normalizes q and k and computes the gates of
// the window's tokens once per head, into scratch that stays in the second-level cache; phase update takes units of unitRows
// value rows of one head of one span through the window's tokens. Windows do not show in the result: between tokens the state
// has the slot's precision anyway.

import "headroom/kernels/cpu"

const (
	prepare = 0
	update  = 1

	windowRows = 64
	unitRows   = 32
)

// window is the rows [from, to) of the batch under way, the spans that meet them, and the scratch.
type window struct {
	from, to           int
	firstSpan, endSpan int
	padded             int
	scratch            []byte // laid out as recurrent.h says
}

// CPU implements kernels.Op.
func (o *GatedDelta) CPU(c *cpu.Context) {
	if len(o.Spans) == 0 {
		return
	}
	if c.ISA == cpu.Generic {
		c.Parallel(o, update, len(o.Spans)*o.Hv, 1)
		return
	}
	w := &o.window
	w.padded = (o.Dk + 15) &^ 15
	for w.from, w.firstSpan = o.Spans[0].Row, 0; w.firstSpan < len(o.Spans); {
		w.to = w.from + windowRows
		for w.endSpan = w.firstSpan; w.endSpan < len(o.Spans) && o.Spans[w.endSpan].Row < w.to; w.endSpan++ {
		}
		last := o.Spans[w.endSpan-1]
		w.to = min(w.to, last.Row+last.Rows)
		o.runWindow(c)
		switch { // the next window starts where this one ended, or at the next span
		case last.Row+last.Rows > w.to:
			w.firstSpan, w.from = w.endSpan-1, w.to
		case w.endSpan < len(o.Spans):
			w.firstSpan, w.from = w.endSpan, o.Spans[w.endSpan].Row
		default:
			w.firstSpan = w.endSpan
		}
	}
	*w = window{}
}

func (o *GatedDelta) runWindow(c *cpu.Context) {
	w := &o.window
	tokens := w.to - w.from
	w.scratch = c.Shared(4 * tokens * (o.Hk*2*w.padded + 3*o.Hv))
	c.Parallel(o, prepare, tokens, 1+16384/(2*o.Hk*o.Dk+32*o.Hv))
	pieces := w.endSpan - w.firstSpan
	perUnit := (tokens/pieces + 1) * min(unitRows, o.Dv) * o.Dk
	c.Parallel(o, update, pieces*o.Hv*o.unitsPerHead(), 1+65536/perUnit)
}

func (o *GatedDelta) unitsPerHead() int { return (o.Dv + unitRows - 1) / unitRows }

// units runs units [from, to) of phase update: unit u is value rows u%perHead*unitRows on of head u/perHead%Hv of a span.
func (o *GatedDelta) units(isa cpu.ISA, from, to int) {
	w := &o.window
	perSpan := o.Hv * o.unitsPerHead()
	for u := from; u < to; { // the units of one span in one call
		s := o.Spans[w.firstSpan+u/perSpan]
		end := min(to, (u/perSpan+1)*perSpan)
		row := max(s.Row, w.from)
		o.nativeUpdate(isa, s, row, min(s.Row+s.Rows, w.to), s.Pos == 0 && row == s.Row, u%perSpan, (end-1)%perSpan+1)
		u = end
	}
}

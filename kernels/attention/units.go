package attention

import (
	"unsafe"

	"headroom/kernels"
)

// How an Attention is cut into units of work, and what a unit leaves behind.
//
// The vectors of a unit are the query rows of its block times the heads of its group, heads
// fastest. While segments are summed, each vector has a record of recordFloats: the weighted sum of
// values [D], the highest score, and the sum of weights relative to it.

// A span of one block is cut into its segments, so that threads have enough to share; but not where
// there are heads enough and many vectors, whose preparation and records would be paid for with
// every segment. What a decoded token reads, of few vectors, is faster read a segment's heads after
// each other.
const (
	fewVectors     = 12
	headsPerThread = 4
)

// cut is how one span is divided.
type cut struct {
	blocks   int // blocks of query rows
	from, to int // segments that the span's rows see, behind the sinks
	split    bool
	units    int
	partials int // floats of partial records that a split span needs
}

func (o *Attention) cut(s *kernels.Span) cut {
	rows, kvHeads := o.blockRows(), o.Cache.KVHeads
	c := cut{
		blocks: (s.Rows + rows - 1) / rows,
		from:   o.seenFrom(s.Pos) / segmentTokens,
		to:     (s.Pos+s.Rows-1)/segmentTokens + 1,
	}
	c.units = c.blocks * kvHeads
	if c.blocks == 1 && c.to-c.from > 1 &&
		(s.Rows*o.group() <= fewVectors || kvHeads < headsPerThread*o.threads) {
		c.split = true
		c.units = (o.sinkSegments() + c.to - c.from) * kvHeads
		c.partials = c.units * s.Rows * o.group() * o.recordFloats()
	}
	return c
}

// sinkSegments is 1 if the first positions are a segment of their own, else 0.
func (o *Attention) sinkSegments() int { return min(o.SinkTokens, 1) }

// blockRows is how many query rows of a prompt share a tile.
func (o *Attention) blockRows() int { return max(1, blockVectors/o.group()) }

// recordFloats keeps records a multiple of 64 bytes apart.
func (o *Attention) recordFloats() int { return o.Cache.HeadDim + 16 }

// scratchFloats is what a worker needs: a tile, and for each vector its query, scores, two records,
// and what the integer products need: the rounded query (16 bits each, and three numbers per
// group), sixteen sums per group of V, weights of 16 bits for a tile, and two numbers that they are
// worth; the groups of a tile's V, two numbers a position and one more; and room for the sixteen
// weights that a matrix unit may read past the last.
func (o *Attention) scratchFloats() int {
	vectors, d := o.blockRows()*o.group(), o.Cache.HeadDim
	integers := d/2 + 3*d/minGroup + 16*d/minGroup + tileTokens/2 + 2
	return tileTokens*d + vectors*(d+tileTokens+2*o.recordFloats()+integers) +
		d/minGroup*(2*tileTokens+1) + 16*tileTokens/2
}

// unit is the part of a span that one call computes: rows [row, row+rows) of the span, one KV head,
// the sinks if it has them, and segments [from, to).
type unit struct {
	span      *kernels.Span
	kvHead    int
	row, rows int
	sinks     bool
	from, to  int
	// where a unit of a split span leaves its records; nil: it writes the output
	partials []float32
}

// segments is how many records a vector of u goes through.
func (u *unit) segments() int {
	if u.sinks {
		return 1 + u.to - u.from
	}
	return u.to - u.from
}

// unit finds unit i.
func (o *Attention) unit(i int) unit {
	kvHeads, base := o.Cache.KVHeads, 0
	for j := range o.Spans {
		s := &o.Spans[j]
		c := o.cut(s)
		if i >= c.units {
			i -= c.units
			base += c.partials
			continue
		}
		u := unit{span: s, kvHead: i % kvHeads, rows: s.Rows, sinks: o.SinkTokens > 0, from: c.from,
			to: c.to}
		if c.split {
			if u.sinks = i < kvHeads*o.sinkSegments(); u.sinks {
				u.to = u.from
			} else {
				u.from += i/kvHeads - o.sinkSegments()
				u.to = u.from + 1
			}
			n := s.Rows * o.group() * o.recordFloats()
			u.partials = o.partials[base+i*n : base+(i+1)*n]
			return u
		}
		// Blocks of one KV head follow each other, so that its keys and values stay in the cache of
		// a core; the last rows see most, so they go first: threads then end together.
		rows := o.blockRows()
		u.kvHead = i / c.blocks
		u.row = (c.blocks - 1 - i%c.blocks) * rows
		u.rows = min(rows, s.Rows-u.row)
		u.from = o.seenFrom(s.Pos+u.row) / segmentTokens
		u.to = (s.Pos+u.row+u.rows-1)/segmentTokens + 1
		return u
	}
	panic("attention: no such unit")
}

// splitUnit finds merge unit i: one KV head of a span. ok is false if the span was not split. The
// partials are those of its first segment and all that follow; consecutive segments lie stride
// floats apart.
func (o *Attention) splitUnit(i int) (u unit, stride int, ok bool) {
	kvHeads, base := o.Cache.KVHeads, 0
	at := i / kvHeads
	for j := range at {
		base += o.cut(&o.Spans[j]).partials
	}
	s := &o.Spans[at]
	c := o.cut(s)
	if !c.split {
		return unit{}, 0, false
	}
	n := s.Rows * o.group() * o.recordFloats()
	u = unit{span: s, kvHead: i % kvHeads, rows: s.Rows, sinks: o.SinkTokens > 0, from: c.from,
		to: c.to}
	u.partials = o.partials[base+u.kvHead*n : base+c.partials]
	return u, n * kvHeads, true
}

// floats is n float32 at the start of scratch memory.
func floats(b []byte, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
}

package attention

import (
	"unsafe"

	"headroom/kernels"
)

// The division of an Attention into units of work.
//
// The vectors of a unit are the query rows of its block times the heads of its group; the head
// index varies fastest. While segments are summed, each vector has a record of recordFloats floats:
// the weighted sum of values, the highest score, and the sum of weights relative to that score.

// A span of one block is split into its segments, so that all threads have work. It is not split if
// the heads alone give enough units and there are many vectors, because each segment would prepare
// the vectors and their records again. With few vectors, as in decoding, it is always split:
// reading all heads of one segment after each other is faster.
const (
	fewVectors     = 12
	headsPerThread = 4
)

// cut describes the division of one span.
type cut struct {
	blocks   int  // blocks of query rows
	from, to int  // segments that the rows see, without the sink tokens
	split    bool // each segment is a separate unit
	units    int
	partials int // floats of partial records, 0 if the span is not split
}

func (o *Attention) cut(s *kernels.Span) cut {
	rows, kvHeads := o.blockRows(), o.Cache.KVHeads
	c := cut{
		blocks: (s.Rows + rows - 1) / rows,
		from:   o.seenFrom(s.Pos) / segmentTokens,
		to:     (o.seenTo(s, s.Pos+s.Rows-1)-1)/segmentTokens + 1,
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

// sinkSegments returns 1 if the sink tokens are a separate segment, else 0.
func (o *Attention) sinkSegments() int { return min(o.SinkTokens, 1) }

// blockRows returns the number of query rows of a prompt that share a tile.
func (o *Attention) blockRows() int { return max(1, blockVectors/o.group()) }

// recordFloats returns the size of a record. Records are multiples of 64 bytes apart.
func (o *Attention) recordFloats() int { return o.Cache.valueDim() + 16 }

// scratchFloats returns the size of a worker's scratch memory, in floats:
//
//   - a tile
//   - per vector: the query, the scores and two records
//   - per vector, for integer products: the rounded query (16 bits per element and three numbers
//     per group), 16 sums per group of V, a tile's weights (16 bits each) and their two step sizes
//   - per group of V: two numbers per position of a tile and one more
//   - padding, because a matrix unit may read the weights of 16 vectors past the last one
func (o *Attention) scratchFloats() int {
	vectors, d := o.blockRows()*o.group(), o.Cache.HeadDim
	integers := d/2 + 3*d/minGroup + 16*d/minGroup + tileTokens/2 + 2
	return tileTokens*d + vectors*(d+tileTokens+2*o.recordFloats()+integers) +
		d/minGroup*(2*tileTokens+1) + 16*tileTokens/2
}

// unit is the part of a span that one call computes: rows [row, row+rows) of the span for one KV
// head, over segments [from, to) and, if sinks is set, over the sink tokens.
type unit struct {
	span      *kernels.Span
	kvHead    int
	row, rows int
	sinks     bool
	from, to  int
	// partials receives the records of a unit of a split span. If nil, the unit writes the output.
	partials []float32
}

// segments returns the number of segments of u, including that of the sink tokens.
func (u *unit) segments() int {
	if u.sinks {
		return 1 + u.to - u.from
	}
	return u.to - u.from
}

// unit returns unit i of all spans. It panics if there is no such unit.
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
		// Blocks of one KV head are consecutive, so that its keys and values stay in a core's
		// cache. The last rows come first because they see the most positions: threads then finish
		// at about the same time.
		rows := o.blockRows()
		u.kvHead = i / c.blocks
		u.row = (c.blocks - 1 - i%c.blocks) * rows
		u.rows = min(rows, s.Rows-u.row)
		u.from = o.seenFrom(s.Pos+u.row) / segmentTokens
		u.to = (o.seenTo(s, s.Pos+u.row+u.rows-1)-1)/segmentTokens + 1
		return u
	}
	panic("attention: no such unit")
}

// splitUnit returns merge unit i, which is one KV head of a span. ok is false if the span was not
// split. The unit's partials begin with those of its first segment, and consecutive segments are
// stride floats apart.
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

// floats returns n float32 values at the start of scratch memory.
func floats(b []byte, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
}

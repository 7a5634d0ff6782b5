package attention

import (
	"math"

	"headroom/kernels"
)

// Attention in plain Go: the same tiles, segments and merges as in paged_attention.c, one query
// vector at a time. Queries are rounded for quantized keys as in kv_round.h, but the products are
// float32.

// attend computes a unit.
func (o *Attention) attend(u unit, scratch []float32) {
	d, record := o.Cache.HeadDim, o.recordFloats()
	vectors := u.rows * o.group()
	tile, scores := scratch[:tileTokens*d], scratch[tileTokens*d:][:vectors*tileTokens]
	part := scratch[tileTokens*(d+vectors):][:vectors*record]
	total := scratch[tileTokens*(d+vectors)+vectors*record:][:vectors*record]
	if u.partials != nil {
		part = u.partials
	} else {
		o.initTotals(u, total)
	}
	q := scratch[tileTokens*(d+vectors)+2*vectors*record:][:d]
	segment := func(from, to int, sinks bool) {
		for i := range vectors {
			reset(part[i*record:][:record])
		}
		for t := from; t < to; t += tileTokens {
			o.tile(u, t, sinks, tile, q, scores, part)
		}
		if u.partials == nil {
			mergeRecords(part, total, record)
		}
	}
	if u.sinks {
		segment(0, tileTokens, true)
	}
	for s := u.from; s < u.to; s++ {
		segment(s*segmentTokens, (s+1)*segmentTokens, false)
	}
	if u.partials == nil {
		o.finish(u, total)
	}
}

// merge computes merge unit i.
func (o *Attention) merge(i int, scratch []float32) {
	u, stride, ok := o.splitUnit(i)
	if !ok {
		return
	}
	n := u.rows * o.group() * o.recordFloats()
	total := scratch[:n]
	o.initTotals(u, total)
	for s := range u.segments() {
		mergeRecords(u.partials[s*stride:][:n], total, o.recordFloats())
	}
	o.finish(u, total)
}

// tile adds the tile at position t to the record of every vector of u that sees part of it. sinks
// says whether it is the tile of the sink tokens. tile and q are scratch.
func (o *Attention) tile(u unit, t int, sinks bool, tile, q, scores, part []float32) {
	c, d, record, group := o.Cache, o.Cache.HeadDim, o.recordFloats(), o.group()
	n := c.valueDim()
	pos := u.span.Pos + u.row
	first, _ := o.seenOf(u.span, pos, t, sinks)
	_, end := o.seenOf(u.span, pos+u.rows-1, t, sinks)
	for p := first; p < end; p++ {
		c.keys(t+p).read(tile[p*d:][:d], u.span.Pages, u.kvHead, t+p)
	}
	for i := range u.rows * group {
		from, to := o.seenOf(u.span, pos+i/group, t, sinks)
		if from >= to {
			continue
		}
		col := (u.kvHead*group + i%group) * d
		for j, x := range o.Q.Row(u.span.Row + u.row + i/group)[col : col+d] {
			q[j] = x * o.Scale
		}
		if o.rounds(t) {
			roundQuery(q, c.KFormat.group())
		}
		s, r := scores[i*tileTokens:][:tileTokens], part[i*record:][:record]
		for p := from; p < to; p++ {
			var sum float32
			for j, k := range tile[p*d:][:d] {
				sum += q[j] * k
			}
			s[p] = o.capped(sum)
		}
		weigh(s[from:to], r, n)
	}
	for p := first; p < end; p++ {
		c.values(t+p).read(tile[p*d:][:d], u.span.Pages, u.kvHead, t+p)
	}
	for i := range u.rows * group {
		from, to := o.seenOf(u.span, pos+i/group, t, sinks)
		for p := from; p < to; p++ {
			w := scores[i*tileTokens+p]
			for j, v := range tile[p*d:][:n] {
				part[i*record+j] += w * v
			}
		}
	}
}

// capped returns the score x after the cap, if there is one.
func (o *Attention) capped(x float32) float32 {
	if o.Cap == 0 {
		return x
	}
	return o.Cap * float32(math.Tanh(float64(x/o.Cap)))
}

// rounds reports whether the keys of the tile at t are codes, for which queries are rounded to 8
// bits.
func (o *Attention) rounds(t int) bool {
	return !o.exact && t >= o.Cache.Start.Tokens && o.Cache.KFormat.quantized()
}

// roundQuery rounds each group of q to multiples of a step: its largest magnitude / 127. If the
// step is not a normal number the group becomes zero, or NaN if it has an infinite or NaN element.
func roundQuery(q []float32, group int) {
	for ; len(q) > 0; q = q[group:] {
		var top, nan float32
		for _, x := range q[:group] {
			top = max(top, abs(x))
			nan += x * 0
		}
		step := top/127 + nan
		for i, x := range q[:group] {
			q[i] = step * 0
			if step >= 0x1p-126 {
				q[i] = step * roundEven(x/step)
			}
		}
	}
}

// seenOf returns the part of the tile at t that the row at pos of s sees, as offsets from t, either
// of the sink tokens or of the positions after them. from >= to if the row sees nothing.
func (o *Attention) seenOf(s *kernels.Span, pos, t int, sinks bool) (from, to int) {
	if sinks {
		return 0, min(o.SinkTokens, pos+1)
	}
	return max(0, o.seenFrom(pos)-t), min(tileTokens, o.seenTo(s, pos)-t)
}

// weigh turns the scores s into weights relative to the highest score so far, and rescales record r
// to it.
func weigh(s, r []float32, d int) {
	highest := r[d]
	for _, x := range s {
		highest = max(highest, x)
	}
	var sum float32
	for i, x := range s {
		s[i] = exp(x - highest)
		sum += s[i]
	}
	scale := exp(r[d] - highest)
	r[d], r[d+1] = highest, r[d+1]*scale+sum
	for i := range d {
		r[i] *= scale
	}
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

func reset(record []float32) {
	clear(record)
	record[len(record)-16] = float32(math.Inf(-1))
}

// initTotals initializes the records that segments are merged into. They are empty, or hold the
// sink: a score with weight 1 and no value.
func (o *Attention) initTotals(u unit, total []float32) {
	d, record, group := o.Cache.valueDim(), o.recordFloats(), o.group()
	for i := range u.rows * group {
		r := total[i*record:][:record]
		reset(r)
		if !o.Sinks.IsNone() {
			r[d], r[d+1] = o.Sinks.Row(0)[u.kvHead*group+i%group], 1
		}
	}
}

// mergeRecords merges the records of a segment into total. The record of a vector that saw nothing
// of the segment does not change.
func mergeRecords(part, total []float32, record int) {
	d := record - 16
	for i := 0; i < len(part); i += record {
		p, t := part[i:i+record], total[i:i+record]
		if math.IsInf(float64(p[d]), -1) {
			continue
		}
		highest := max(t[d], p[d])
		a, b := exp(t[d]-highest), exp(p[d]-highest)
		t[d], t[d+1] = highest, t[d+1]*a+p[d+1]*b
		for j := range d {
			t[j] = t[j]*a + p[j]*b
		}
	}
}

// finish divides the sums by their weights and writes the output.
func (o *Attention) finish(u unit, total []float32) {
	d, record, group := o.Cache.valueDim(), o.recordFloats(), o.group()
	for i := range u.rows * group {
		t := total[i*record:][:record]
		out := o.Out.Row(u.span.Row + u.row + i/group)[(u.kvHead*group+i%group)*d:][:d]
		for j := range out {
			out[j] = t[j] / t[d+1]
		}
	}
}

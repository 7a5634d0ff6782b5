package attention

import (
	"math"
	"slices"
	"unsafe"

	"headroom/kernels/cpu"
)

// Select on the CPU. The observed rows go through the keys twice: first for the highest score and
// the sum of exponentials of each row, then for the softmax weights, which are added up per
// position. Keeping the scores instead would take a number for each row, head and position.

// The phases of CPU, and what a unit of each is.
const (
	observeSegments = iota // a segment of a KV head
	totalHeads             // a KV head
	weighSegments          // a segment with candidates, of a KV head
	chooseHeads            // a KV head
	copyPages              // a page of a KV head
)

// CPU implements kernels.Op.
func (o *Select) CPU(c *cpu.Context) {
	o.observe()
	o.allocate(c)
	compact, heads := o.span.Compact, o.Cache.KVHeads
	first, last := compact.First/segmentTokens, (compact.From-1)/segmentTokens
	c.Parallel(o, observeSegments, o.segments()*heads, 1)
	c.Parallel(o, totalHeads, heads, 1)
	c.Parallel(o, weighSegments, (last-first+1)*heads, 1)
	c.Parallel(o, chooseHeads, heads, 1)
	c.Parallel(o, copyPages, len(compact.Pages)*heads, 1)
	o.selection = selection{}
}

func (o *Select) vectors() int  { return o.span.Rows * o.attention.group() }
func (o *Select) segments() int { return (o.span.Compact.Prompt-1)/segmentTokens + 1 }

// candidates returns n, the number of positions to select from.
func (o *Select) candidates() int { return o.span.Compact.From - o.span.Compact.First }

// allocate takes the memory of the selection from scratch.
func (o *Select) allocate(c *cpu.Context) {
	heads, n, tokens := o.Cache.KVHeads, o.candidates(), o.span.Compact.Tokens
	records := 2 * o.vectors() * heads
	counts := [...]int{o.segments() * records, records, heads * n, heads * tokens}
	bytes := 8 * heads * n
	for _, count := range counts {
		bytes += 4 * count
	}
	memory := c.Shared(bytes)
	o.keys = unsafe.Slice((*uint64)(unsafe.Pointer(&memory[0])), heads*n)
	memory = memory[8*heads*n:]
	var parts [len(counts)][]float32
	for i, count := range counts {
		parts[i], memory = floats(memory, count), memory[4*count:]
	}
	o.records, o.totals, o.weights = parts[0], parts[1], parts[2]
	o.chosen = unsafe.Slice((*int32)(unsafe.Pointer(&parts[3][0])), heads*tokens)
}

// CPURange implements cpu.Task.
func (o *Select) CPURange(c *cpu.Context, phase, worker, from, to int) {
	heads, p, tokens := o.Cache.KVHeads, o.Cache.PageTokens, o.span.Compact.Tokens
	for i := from; i < to; i++ {
		switch phase {
		case observeSegments:
			records := o.records[2*i*o.vectors():][:2*o.vectors()]
			for j := 0; j < len(records); j += 2 {
				records[j], records[j+1] = float32(math.Inf(-1)), 0
			}
			o.segment(c, worker, i/heads, i%heads, records, nil)
		case totalHeads:
			o.total(i)
		case weighSegments:
			o.weigh(c, worker, o.span.Compact.First/segmentTokens+i/heads, i%heads)
		case chooseHeads:
			o.choose(i)
		case copyPages:
			o.copy(i%heads, o.chosen[i%heads*tokens:][:tokens], i/heads*p, (i/heads+1)*p)
		}
	}
}

// segment adds a segment to the records of a KV head or, if sums is not nil, to sums; see
// headroom_attention_observe.
func (o *Select) segment(c *cpu.Context, worker, segment, kvHead int, records, sums []float32) {
	a, d := &o.attention, o.Cache.HeadDim
	rows := min(a.blockRows(), o.span.Rows)
	n := tileTokens*d + rows*a.group()*(d+tileTokens)
	scratch := floats(c.Local(worker, 4*n), n)
	for row := 0; row < o.span.Rows; row += rows {
		u := unit{span: &o.span, kvHead: kvHead, row: row, rows: min(rows, o.span.Rows-row),
			from: segment, to: segment + 1}
		part := records[2*row*a.group():][:2*u.rows*a.group()]
		if c.ISA == cpu.Generic {
			o.plain(u, scratch, part, sums)
		} else {
			o.native(c.ISA, u, scratch, part, sums)
		}
	}
}

// plain is headroom_attention_observe in plain Go.
func (o *Select) plain(u unit, scratch, records, sums []float32) {
	a, d := &o.attention, o.Cache.HeadDim
	tile, scores := scratch[:tileTokens*d], scratch[tileTokens*d:][:tileTokens]
	for t := u.from * segmentTokens; t < u.to*segmentTokens; t += tileTokens {
		pos := o.span.Pos + u.row
		for p := range min(tileTokens, pos+u.rows-t) {
			o.Cache.keys(t+p).read(tile[p*d:][:d], o.span.Pages, u.kvHead, t+p)
		}
		for i := range u.rows * a.group() {
			n := min(tileTokens, pos+i/a.group()+1-t)
			if n <= 0 {
				continue
			}
			col := (u.kvHead*a.group() + i%a.group()) * d
			q := o.Q.Row(o.span.Row + u.row + i/a.group())[col:][:d]
			for p := range n {
				var sum float32
				for j, k := range tile[p*d:][:d] {
					sum += q[j] * a.Scale * k
				}
				scores[p] = a.capped(sum)
			}
			if sums == nil {
				weigh(scores[:n], records[2*i:][:2], 0)
				continue
			}
			for p, s := range scores[:n] {
				sums[t%segmentTokens+p] += exp(s-records[2*i]) * records[2*i+1]
			}
		}
	}
}

// total merges the records of all segments of a KV head.
func (o *Select) total(kvHead int) {
	n, heads := 2*o.vectors(), o.Cache.KVHeads
	totals := o.totals[kvHead*n:][:n]
	for i := 0; i < n; i += 2 {
		t := totals[i:][:2]
		t[0], t[1] = float32(math.Inf(-1)), 0
		for segment := range o.segments() {
			p := o.records[(segment*heads+kvHead)*n+i:][:2]
			if math.IsInf(float64(p[0]), -1) {
				continue
			}
			highest := max(t[0], p[0])
			t[1] = t[1]*exp(t[0]-highest) + p[1]*exp(p[0]-highest)
			t[0] = highest
		}
		t[1] = 1 / t[1]
	}
}

// weigh computes the weights of the candidates in a segment.
func (o *Select) weigh(c *cpu.Context, worker, segment, kvHead int) {
	var sums [segmentTokens]float32
	n, compact := 2*o.vectors(), o.span.Compact
	o.segment(c, worker, segment, kvHead, o.totals[kvHead*n:][:n], sums[:])
	base := segment * segmentTokens
	from, to := max(compact.First, base), min(compact.From, base+segmentTokens)
	copy(o.weights[kvHead*o.candidates()+from-compact.First:], sums[from-base:to-base])
}

// choose chooses the positions of a KV head.
func (o *Select) choose(kvHead int) {
	n, compact := o.candidates(), o.span.Compact
	weights, keys := o.weights[kvHead*n:][:n], o.keys[kvHead*n:][:n]
	for i := range keys {
		var score float32
		for _, w := range weights[max(0, i-poolReach):min(n, i+poolReach+1)] {
			score += w
		}
		// Scores are not negative, so their bits are in the same order. Of equal scores, that of
		// the first position has the largest key.
		keys[i] = uint64(math.Float32bits(score))<<32 | uint64(math.MaxUint32-uint32(i))
	}
	slices.Sort(keys)
	chosen := o.chosen[kvHead*compact.Tokens:][:compact.Tokens]
	for i, key := range keys[n-compact.Tokens:] {
		chosen[i] = int32(compact.First) + int32(math.MaxUint32-uint32(key))
	}
	slices.Sort(chosen)
}

// copy copies the keys and values of chosen[from:to] of a KV head to the same places of the pages
// of the selection.
func (o *Select) copy(kvHead int, chosen []int32, from, to int) {
	pages := o.span.Compact.Pages
	for i := from; i < to; i++ {
		pos := int(chosen[i])
		o.Cache.keys(pos).copy(pages, i, o.span.Pages, pos, kvHead)
		if !o.Cache.latent() {
			o.Cache.values(pos).copy(pages, i, o.span.Pages, pos, kvHead)
		}
	}
}

// copy copies the bits of position pos in one page table to position to in another.
func (r rows) copy(toPages []int32, to int, pages []int32, pos, head int) {
	if r.f.quantized() {
		from, dst := r.strip(pages, head, pos), r.strip(toPages, head, to)
		from.copy(&dst)
		return
	}
	base, step := r.elements(pages, head, pos)
	dst, _ := r.elements(toPages, head, to)
	size := r.f.DType.Size()
	if step == 1 {
		copy(r.bytes[dst*size:][:r.c.HeadDim*size], r.bytes[base*size:])
		return
	}
	for i := range r.c.HeadDim {
		copy(r.bytes[(dst+i*step)*size:][:size], r.bytes[(base+i*step)*size:])
	}
}

// copy copies the parameters and codes of a position, whose bytes are its own, to another strip.
func (s *strip) copy(to *strip) {
	params := s.headDim / s.f.group() * s.f.params()
	for g := range params {
		copy(to.bytes[2*(g*stripTokens+to.lane):][:2], s.bytes[2*(g*stripTokens+s.lane):])
	}
	codes := 2 * stripTokens * params
	if s.keys {
		for at := codes; at < len(s.bytes); at += 4 * stripTokens {
			copy(to.bytes[at+4*to.lane:][:4], s.bytes[at+4*s.lane:])
		}
		return
	}
	// A bundle of 4 positions has 16*bits bytes, of which every fourth belongs to each.
	size := 16 * s.f.bits()
	from, dst := codes+s.lane/4*size+byteOfLane[s.lane%4], codes+to.lane/4*size+
		byteOfLane[to.lane%4]
	for ; from < len(s.bytes); from, dst = from+4*size, dst+4*size {
		for i := 0; i < size; i += 4 {
			to.bytes[dst+i] = s.bytes[from+i]
		}
	}
}

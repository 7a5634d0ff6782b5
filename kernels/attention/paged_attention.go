package attention

// Attention over the cache: the specification, the checks and the division into units of work.
// Batches, chunks and threads change the division, but never the bits of a row.

import (
	"errors"
	"fmt"
	"math"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Attention is grouped-query attention over a paged cache. A row at position p attends to positions
// [max(0, p-Window+1), p] of its sequence, and to those of [0, SinkTokens) up to p. It is causal
// unless Following is set: then a row also attends to that many positions after p, as far as its
// span has them. The keys and values of all these positions, including its own, must already be in
// the cache.
//
//	out[m, h] = sum over j of softmax_j(Scale * q[m, h] . k[j, h/G]) * v[j, h/G],  G = H/KVH
//
// The values of a latent cache are the first elements of its keys, so v[j] has Cache.ValueDim
// elements, and so has the output of a head.
//
// With a Cap, the softmax is over Cap * tanh(score / Cap) instead of the scores.
//
// Rows outside the spans are not written.
//
// Quantized keys and values are multiplied in integers: keys with queries rounded to 8 bits per
// group of the keys, values with softmax weights rounded to 1/32512 of the largest weight of a
// tile. A device that keeps activations in float32 (cpu.Options) does not round. The values of a
// latent cache are multiplied in float32.
//
// The order of every sum follows from absolute positions, in two levels. A segment is 512 positions
// from a multiple of 512, computed in tiles of 64 positions by online softmax (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention").
// Segments are then merged in order. So the segments of one long row can be computed by several
// threads, the rows of a prompt can share tiles, and both give the same bits. The first SinkTokens
// positions are a separate segment before the others, even while the window still reaches them. A
// position that a row does not see takes no part in its sums, not even as a zero, so the result
// does not depend on what other rows and sequences have left in a page.
type Attention struct {
	Q      kernels.Tensor // float32 [M, H*D]
	Out    kernels.Tensor // float32 [M, H*D], of a latent cache [M, H*ValueDim]
	Cache  *Cache
	Spans  []kernels.Span
	Scale  float32 // usually 1/sqrt(D)
	Cap    float32 // of the scores (Gemma Team 2024, "Gemma 2"); 0 means none
	Window int     // positions that a row sees, including its own; 0 means all
	// Following is the number of positions after its own that a row sees in its span. A span must
	// then have all of its rows, or none, as prefill, because a GPU computes the two parts apart.
	Following int
	// Sinks is float32 [1, H] or none: a logit per head that is added to the softmax's denominator
	// only.
	Sinks kernels.Tensor
	// SinkTokens is the number of first positions that stay visible beyond the window (Xiao et al.
	// 2024, "Efficient Streaming Language Models with Attention Sinks"). It is at most 64, and 0 if
	// there is no window.
	SinkTokens int

	partials []float32 // records of split spans, in scratch that threads share
	exact    bool      // activations stay float32
	threads  int       // number of threads of the current CPU call
}

// paged_attention.h repeats tileTokens and segmentTokens.
const (
	tileTokens    = 64
	segmentTokens = 512
	blockVectors  = 64 // most query vectors (rows times heads of a group) of a block
)

// Name implements kernels.Op.
func (o *Attention) Name() string { return "paged_attention" }

// Check implements kernels.Op.
func (o *Attention) Check() error {
	if err := o.Cache.check(); err != nil {
		return err
	}
	if group := o.Cache.KVHeads * o.Cache.HeadDim; o.Q.Cols < 1 || o.Q.Cols%group != 0 {
		return fmt.Errorf("q: got %s, expected columns a multiple of %d KV heads of %d dimensions",
			o.Q, o.Cache.KVHeads, o.Cache.HeadDim)
	}
	if !(o.Cap >= 0) || math.IsInf(float64(o.Cap), 0) {
		return fmt.Errorf("cap: got %g, expected a positive number, or 0 for none", o.Cap)
	}
	if o.Window < 0 {
		return fmt.Errorf("window: got %d, expected the positions that a row sees, or 0 for all",
			o.Window)
	}
	if o.Window > 0 && o.Cache.Start.Tokens > 0 {
		return fmt.Errorf(
			"window: got %d and a cache that keeps the first %d positions as float16, expected 0 "+
				"or a cache without a start", o.Window, o.Cache.Start.Tokens)
	}
	if o.SinkTokens < 0 || o.SinkTokens > tileTokens || o.SinkTokens > 0 && o.Window == 0 {
		return fmt.Errorf(
			"sink tokens: got %d with a window of %d, expected 0 to %d, and 0 without a window",
			o.SinkTokens, o.Window, tileTokens)
	}
	if o.Following < 0 || o.Following > MostFollowing || o.Following > 0 && o.SinkTokens > 0 {
		return fmt.Errorf("following: got %d with %d sink tokens, expected 0 to %d, and 0 with "+
			"sink tokens", o.Following, o.SinkTokens, MostFollowing)
	}
	for i := range o.Spans {
		s := &o.Spans[i]
		if o.Following > 0 && s.Prefill > 0 && s.Prefill < s.Rows {
			return fmt.Errorf("span %d: got %d prefill rows of %d, expected all or none", i,
				s.Prefill, s.Rows)
		}
	}
	err := errors.Join(
		kernels.CheckShape("q", o.Q, kernels.F32, -1, -1),
		kernels.CheckShape("out", o.Out, kernels.F32, o.Q.Rows, o.heads()*o.Cache.valueDim()),
		kernels.CheckSpans(o.Spans, o.Q.Rows))
	if err == nil {
		err = o.Cache.checkPages(o.Spans, o.firstSeen, o.SinkTokens)
	}
	if !o.Sinks.IsNone() {
		err = errors.Join(err, kernels.CheckShape("sinks", o.Sinks, kernels.F32, 1, o.heads()))
	}
	return err
}

func (o *Attention) heads() int { return o.Q.Cols / o.Cache.HeadDim }

// group returns the number of query heads that share a KV head.
func (o *Attention) group() int { return o.heads() / o.Cache.KVHeads }

// seenFrom returns the first position after the sink tokens that the row at pos sees. It is greater
// than pos if the row sees none.
func (o *Attention) seenFrom(pos int) int {
	if o.Window == 0 {
		return 0
	}
	return max(o.SinkTokens, pos-o.Window+1)
}

// seenTo returns the position after the last one that the row at pos of s sees.
func (o *Attention) seenTo(s *kernels.Span, pos int) int {
	return min(pos+1+o.Following, s.Pos+s.Rows)
}

// seen returns the number of positions that the row at pos sees up to its own.
func (o *Attention) seen(pos int) int {
	return min(o.SinkTokens, pos+1) + max(0, pos+1-o.seenFrom(pos))
}

func (o *Attention) firstSeen(s *kernels.Span) int { return o.seenFrom(s.Pos) }

// Reference implements kernels.Op with a plain softmax in float64 over the stored keys and values.
func (o *Attention) Reference() {
	for i := range o.Spans {
		s := &o.Spans[i]
		for r := range s.Rows {
			for h := range o.heads() {
				o.referenceHead(s, r, h)
			}
		}
	}
}

func (o *Attention) referenceHead(s *kernels.Span, r, h int) {
	c, d, kvHead, pos := o.Cache, o.Cache.HeadDim, h/o.group(), s.Pos+r
	n := c.valueDim()
	q, out := o.Q.Row(s.Row + r)[h*d:][:d], o.Out.Row(s.Row + r)[h*n:][:n]
	var positions []int
	for j := range o.seenTo(s, pos) {
		if o.Window == 0 || j > pos-o.Window || j < o.SinkTokens {
			positions = append(positions, j)
		}
	}
	scores := make([]float64, len(positions))
	highest := math.Inf(-1)
	if !o.Sinks.IsNone() {
		highest = float64(o.Sinks.Row(0)[h])
	}
	row := make([]float32, d)
	for j := range scores {
		c.keys(positions[j]).read(row, s.Pages, kvHead, positions[j])
		for i, x := range q {
			scores[j] += float64(x) * float64(row[i])
		}
		scores[j] *= float64(o.Scale)
		if most := float64(o.Cap); most > 0 {
			scores[j] = most * math.Tanh(scores[j]/most)
		}
		highest = max(highest, scores[j])
	}
	var total float64
	if !o.Sinks.IsNone() {
		total = math.Exp(float64(o.Sinks.Row(0)[h]) - highest)
	}
	sum := make([]float64, n)
	for j, x := range scores {
		w := math.Exp(x - highest)
		total += w
		c.values(positions[j]).read(row, s.Pages, kvHead, positions[j])
		for i := range sum {
			sum[i] += w * float64(row[i])
		}
	}
	for i := range out {
		out[i] = float32(sum[i] / total)
	}
}

// MostFollowing is the largest Following: all positions of any span.
const MostFollowing = 1 << 30

// The phases of CPU.
const (
	attendPhase = iota
	mergePhase
)

// CPU implements kernels.Op. If all rows of a span fit in one block, each segment may be a separate
// unit, and a second phase merges the segments. A longer span has a unit for each block and KV
// head.
func (o *Attention) CPU(c *cpu.Context) {
	units, partials, work := 0, 0, 0
	o.threads = c.Threads
	for i := range o.Spans {
		s := &o.Spans[i]
		cut := o.cut(s)
		units += cut.units
		partials += cut.partials
		// A part of a tile takes as long as a whole tile.
		work += s.Rows * max(tileTokens, o.seen(s.Pos+s.Rows-1))
	}
	grain := 1
	if work*o.Q.Cols < serialWork {
		grain = units
	}
	o.exact = !c.Int8Activation
	o.partials = floats(c.Shared(4*partials), partials)
	c.Parallel(o, attendPhase, units, grain)
	if partials > 0 {
		c.Parallel(o, mergePhase, len(o.Spans)*o.Cache.KVHeads, 1)
	}
	o.partials = nil
}

// serialWork is the number of products of a query and a key element below which one thread is
// faster than several: about 10 µs of work.
const serialWork = 1 << 17

// CPURange implements cpu.Task.
func (o *Attention) CPURange(c *cpu.Context, phase, worker, from, to int) {
	n := o.scratchFloats()
	scratch := floats(c.Local(worker, 4*n), n)
	for i := from; i < to; i++ {
		switch {
		case phase == mergePhase && c.ISA == cpu.Generic:
			o.merge(i, scratch)
		case phase == mergePhase:
			o.nativeMerge(c.ISA, i, scratch)
		case c.ISA == cpu.Generic:
			o.attend(o.unit(i), scratch)
		default:
			o.native(c.ISA, o.unit(i), scratch)
		}
	}
}

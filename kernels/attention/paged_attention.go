package attention

// Attention over the cache: the specification, the checks and the division of work. Batches, chunks
// and threads may change how it is divided, never the bits of a row.

import (
	"errors"
	"fmt"
	"math"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Attention is causal grouped-query attention over a paged cache: row r of a span, at position p,
// attends to positions [max(0, p-Window+1), p] of its own sequence, and to those of [0, SinkTokens)
// that it has passed, whose keys and values, its own included, are already in the cache.
//
//	out[m, h] = sum over j of softmax_j(Scale * q[m, h] . k[j, h/G]) * v[j, h/G],  G = H/KVH
//
// Rows outside every span are left untouched.
//
// Quantized keys are multiplied with queries rounded to 8 bits per group of the keys, and quantized
// values with weights rounded to 1/32512 of the largest of a tile, in integers; unless the device
// keeps activations in float32 (cpu.Options).
//
// The order of every sum is fixed by absolute position, in two levels. A segment is 512 positions
// from a multiple of 512, and goes through tiles of 64 by online softmax (Milakov and Gimelshein
// 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention"); segments
// are then merged in order. So threads may share the segments of one long row, a block of prompt
// rows may share tiles, and both give the same bits. The first SinkTokens positions are a segment
// of their own, before the others, whether the window still reaches them or not. A position that a
// row does not see takes no part in its sums, not even as a zero, so what other rows and other
// sequences left in a page cannot show.
type Attention struct {
	Q      kernels.Tensor // float32 [M, H*D]
	Out    kernels.Tensor // float32 [M, H*D]
	Cache  *Cache
	Spans  []kernels.Span
	Scale  float32 // usually 1/sqrt(D)
	Window int     // positions a row sees, its own included; 0 means all
	// none, or float32 [1, H]: a logit per head that joins the softmax's denominator only
	Sinks kernels.Tensor
	// SinkTokens is how many first positions stay visible when the window has left them behind
	// (Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks"); at most 64,
	// and 0 without a window.
	SinkTokens int

	partials []float32 // of split spans, in shared scratch
	exact    bool      // activations stay float32
	threads  int       // of the CPU pass under way
}

// The same numbers stand in paged_attention.h.
const (
	tileTokens    = 64
	segmentTokens = 512
	blockVectors  = 64 // query rows times heads of a group that share a converted tile
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
	if o.Window < 0 {
		return fmt.Errorf("window: got %d, expected 0 for no window, or the positions a row sees",
			o.Window)
	}
	if o.Window > 0 && o.Cache.Start.Tokens > 0 {
		return fmt.Errorf(
			"window: got %d with a cache that keeps the first %d positions as float16, expected "+
				"one without a start", o.Window, o.Cache.Start.Tokens)
	}
	if o.SinkTokens < 0 || o.SinkTokens > tileTokens || o.SinkTokens > 0 && o.Window == 0 {
		return fmt.Errorf(
			"sink tokens: got %d with a window of %d, expected 0 to %d, and 0 without a window",
			o.SinkTokens, o.Window, tileTokens)
	}
	err := errors.Join(
		kernels.CheckShape("q", o.Q, kernels.F32, -1, -1),
		kernels.CheckShape("out", o.Out, kernels.F32, o.Q.Rows, o.Q.Cols),
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

// group is how many query heads share a KV head.
func (o *Attention) group() int { return o.heads() / o.Cache.KVHeads }

// seenFrom is the first position behind the sinks that the row at pos sees; pos + 1 or more if it
// sees none.
func (o *Attention) seenFrom(pos int) int {
	if o.Window == 0 {
		return 0
	}
	return max(o.SinkTokens, pos-o.Window+1)
}

// seen is how many positions the row at pos sees.
func (o *Attention) seen(pos int) int {
	return min(o.SinkTokens, pos+1) + max(0, pos+1-o.seenFrom(pos))
}

func (o *Attention) firstSeen(s *kernels.Span) int { return o.seenFrom(s.Pos) }

// Reference implements kernels.Op: a plain softmax in float64 over what the cache holds.
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
	q, out := o.Q.Row(s.Row + r)[h*d:][:d], o.Out.Row(s.Row + r)[h*d:][:d]
	var positions []int
	for j := range pos + 1 {
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
		highest = max(highest, scores[j])
	}
	var total float64
	if !o.Sinks.IsNone() {
		total = math.Exp(float64(o.Sinks.Row(0)[h]) - highest)
	}
	sum := make([]float64, d)
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

// The phases of CPU.
const (
	attendPhase = iota
	mergePhase
)

// CPU implements kernels.Op. The segments of a span that fits one block of rows may be units of
// their own (cut), and a second phase merges them; a longer span has a unit per block and KV head.
func (o *Attention) CPU(c *cpu.Context) {
	units, partials, work := 0, 0, 0
	o.threads = c.Threads
	for i := range o.Spans {
		s := &o.Spans[i]
		cut := o.cut(s)
		units += cut.units
		partials += cut.partials
		// few positions take as long as a tile of them
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

// serialWork is how many products of a query and a key element are faster done than shared with
// other threads: some 10 µs of them.
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

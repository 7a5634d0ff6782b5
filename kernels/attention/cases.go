package attention

// The test cases and benchmarks of attention. They cover lengths around the ends of pages, tiles
// and segments, all formats, windows and sinks, and decoding and prefill at the sizes of real
// models.

import (
	"fmt"
	"math"
	"math/rand/v2"

	"headroom/kernels"
)

// shape describes a case. Each span belongs to a different sequence. The sequences share one cache,
// and their pages are shuffled.
type shape struct {
	k, v                 Format
	heads, kvHeads, d, p int
	window, sinkTokens   int
	following            int
	cap                  float32
	start                int      // Cache.Start.Tokens
	sinks                bool     // with sink logits (Attention.Sinks)
	spans                [][3]int // position, rows, prefill rows
	timed                bool     // also a benchmark
	valueDim             int      // Cache.ValueDim
}

func (s shape) name() string {
	if s.valueDim > 0 {
		s.v = s.k // for the name
	}
	name := fmt.Sprintf("paged_attention_%s_h%d_kvh%d_d%d_p%d", formatNames(s.k, s.v), s.heads,
		s.kvHeads, s.d, s.p)
	if s.window > 0 {
		name += fmt.Sprintf("_window%d", s.window)
	}
	if s.following > 0 {
		name += fmt.Sprintf("_following%d", s.following)
	}
	if s.sinkTokens > 0 {
		name += fmt.Sprintf("_keep%d", s.sinkTokens)
	}
	if s.cap > 0 {
		name += fmt.Sprintf("_cap%g", s.cap)
	}
	if s.start > 0 {
		name += fmt.Sprintf("_start%d", s.start)
	}
	if s.sinks {
		name += "_sinks"
	}
	if s.valueDim > 0 {
		name += fmt.Sprintf("_latent%d", s.valueDim)
	}
	for _, x := range s.spans {
		name += fmt.Sprintf("_pos%dm%d", x[0], x[1])
		if x[2] > 0 {
			name += fmt.Sprintf("prefill%d", x[2])
		}
	}
	return name
}

// work returns the number of bytes of the cache that the case must read and the number of
// floating-point operations.
func (s shape) work() (bytes, flops int64) {
	for _, x := range s.spans {
		for r := range x[1] {
			seen := x[0] + r + 1
			if s.window > 0 {
				seen = min(seen, s.window+s.sinkTokens)
			}
			flops += int64(2 * seen * s.heads * (s.d + s.values()))
		}
		read := x[0] + x[1]
		if s.window > 0 {
			read = min(read, s.window+s.sinkTokens+x[1]-1)
		}
		row := s.k.RowBytes(s.d)
		if s.valueDim == 0 {
			row += s.v.RowBytes(s.d)
		}
		bytes += int64(read * s.kvHeads * row)
	}
	return bytes, flops
}

// values returns the dimension of the values.
func (s shape) values() int {
	if s.valueDim > 0 {
		return s.valueDim
	}
	return s.d
}

// cache returns the cache of the case.
func (s shape) cache(d kernels.Device, pages int, start Start) *Cache {
	if s.valueDim > 0 {
		return NewLatentCache(d, s.k, s.d, s.valueDim, s.p, pages, start)
	}
	return NewCache(d, s.k, s.v, s.kvHeads, s.d, s.p, pages, start)
}

// build returns the operator. All positions of the sequences have random keys and values. The
// random queries are a view of a wider tensor. There is one row before the first span and one after
// the last. Both must remain zero.
func (s shape) build(d kernels.Device, r *rand.Rand) *Attention {
	rows, pages := 2, 1
	for _, x := range s.spans {
		rows += x[1]
		pages += (x[0] + x[1] + s.p - 1) / s.p
	}
	start, total := startFor(s.start, pages)
	o := &Attention{
		Q:     kernels.RandomTensor(d, r, rows, s.heads*s.d+32, 2).Columns(16, 16+s.heads*s.d),
		Out:   kernels.NewTensor(d, kernels.F32, rows, s.heads*s.values()),
		Cache: s.cache(d, total, start),
		Scale: float32(1 / math.Sqrt(float64(s.d))), Cap: s.cap, Window: s.window,
		SinkTokens: s.sinkTokens, Following: s.following,
	}
	if s.k.quantized() {
		// These queries do not change when rounded. TestRoundedQueries tests the rounding error.
		for i := range o.Q.Rows {
			roundQuery(o.Q.Row(i), s.k.group())
		}
	}
	if s.sinks {
		o.Sinks = kernels.RandomTensor(d, r, 1, s.heads, 2)
	}
	table, row := randomPages(r, pages), 1
	for _, x := range s.spans {
		n := (x[0] + x[1] + s.p - 1) / s.p
		o.Spans = append(o.Spans,
			kernels.Span{Row: row, Rows: x[1], Pos: x[0], Pages: start.place(table[:n:n], s.p),
				Prefill: x[2]})
		table, row = table[n:], row+x[1]
		o.Cache.fill(d, r, o.Spans[len(o.Spans)-1].Pages, x[0]+x[1])
	}
	return o
}

// fill appends n random positions to the sequence whose page table is pages.
func (c *Cache) fill(d kernels.Device, r *rand.Rand, pages []int32, n int) {
	a := &Append{
		K:     kernels.RandomTensor(d, r, n, c.KVHeads*c.HeadDim, 1),
		Cache: c, Spans: []kernels.Span{{Rows: n, Pages: pages}},
	}
	if !c.latent() {
		a.V = kernels.RandomTensor(d, r, n, c.KVHeads*c.HeadDim, 1)
	}
	d.Run(a)
}

func pagedAttentionCases() []kernels.Case {
	f16, bf16, f32, q8, q4 := FloatFormat(kernels.F16), FloatFormat(kernels.BF16),
		FloatFormat(kernels.F32), Format{Kind: Q8_0}, Format{Kind: Q4_0}
	k8, v4 := affine(8, 64), affine(4, 32)
	var cases []kernels.Case
	for _, s := range []shape{
		{k: f16, v: f16, heads: 1, kvHeads: 1, d: 32, p: 32, spans: [][3]int{{0, 1}}},
		{k: f16, v: f16, heads: 8, kvHeads: 4, d: 64, p: 32, spans: [][3]int{{30, 1}}},
		{k: bf16, v: bf16, heads: 8, kvHeads: 2, d: 128, p: 16,
			spans: [][3]int{{31, 1}, {32, 1}, {511, 1}, {512, 1}}},
		{k: f32, v: f32, heads: 8, kvHeads: 1, d: 256, p: 48,
			spans: [][3]int{{0, 33}, {510, 1}, {511, 5}}},
		{k: f16, v: f16, heads: 6, kvHeads: 1, d: 96, p: 32,
			spans: [][3]int{{1999, 1}, {0, 70}, {100, 50}}},
		{k: f16, v: f16, heads: 4, kvHeads: 4, d: 64, p: 32, spans: [][3]int{{500, 90}}},
		{k: f16, v: f16, heads: 4, kvHeads: 2, d: 64, p: 32, window: 100,
			spans: [][3]int{{0, 150}, {700, 1}, {600, 70}}},
		{k: bf16, v: bf16, heads: 8, kvHeads: 2, d: 32, p: 32, window: 1, sinks: true,
			spans: [][3]int{{0, 40}, {600, 1}}},
		{k: f16, v: f16, heads: 16, kvHeads: 2, d: 64, p: 32, window: 600, sinks: true,
			spans: [][3]int{{1500, 30}, {1999, 1}}},
		{k: f16, v: f16, heads: 4, kvHeads: 2, d: 64, p: 32, window: 60, sinkTokens: 4,
			spans: [][3]int{{0, 150}, {2, 1}, {3, 2}, {700, 1}, {600, 70}}},
		{k: f16, v: f16, heads: 16, kvHeads: 2, d: 64, p: 32, window: 600, sinkTokens: 4,
			sinks: true, spans: [][3]int{{1500, 30}, {1999, 1}, {1100, 3}}},
		{k: k8, v: v4, heads: 8, kvHeads: 2, d: 128, p: 16, window: 40, sinkTokens: 64,
			spans: [][3]int{{31, 1}, {90, 40}, {1700, 1}}},
		// Scores have a standard deviation of 2.
		{k: f16, v: f16, heads: 8, kvHeads: 4, d: 64, p: 32, cap: 2, window: 600,
			spans: [][3]int{{30, 1}, {1400, 1}, {600, 70}}},
		{k: k8, v: v4, heads: 6, kvHeads: 2, d: 128, p: 16, cap: 3, window: 100, sinks: true,
			spans: [][3]int{{31, 1}, {90, 40}, {1100, 1}, {700, 3}}},
		{k: q4, v: bf16, heads: 3, kvHeads: 1, d: 32, p: 32, cap: 4, start: 512,
			spans: [][3]int{{600, 1}, {490, 40}}},
		{k: f16, v: f16, heads: 72, kvHeads: 1, d: 16, p: 32, sinks: true, spans: [][3]int{{5, 3}}},
		{k: f16, v: f16, heads: 4, kvHeads: 2, d: 64, p: 32, timed: true, spans: [][3]int{{63, 1}}},
		{k: f16, v: f16, heads: 32, kvHeads: 8, d: 128, p: 32, timed: true,
			spans: [][3]int{{4095, 1}}},
		{k: f16, v: f16, heads: 16, kvHeads: 2, d: 256, p: 32, timed: true,
			spans: [][3]int{{4095, 1}}},
		{k: f16, v: f16, heads: 4, kvHeads: 1, d: 128, p: 32, timed: true,
			spans: [][3]int{{960, 64}}},
		{k: f16, v: f16, heads: 4, kvHeads: 4, d: 64, p: 32, timed: true,
			spans: [][3]int{{0, 160}}},
		{k: k8, v: v4, heads: 1, kvHeads: 1, d: 64, p: 32, spans: [][3]int{{0, 1}}},
		{k: k8, v: v4, heads: 8, kvHeads: 2, d: 128, p: 16,
			spans: [][3]int{{31, 1}, {32, 1}, {511, 1}, {512, 1}, {90, 40}}},
		{k: affine(3, 32), v: affine(2, 32), heads: 4, kvHeads: 2, d: 96, p: 48, window: 100,
			spans: [][3]int{{0, 70}, {700, 1}}},
		{k: affine(5, 128), v: affine(6, 64), heads: 8, kvHeads: 1, d: 256, p: 32,
			spans: [][3]int{{510, 1}, {511, 9}}},
		{k: q8, v: q4, heads: 6, kvHeads: 2, d: 32, p: 32, sinks: true, window: 70,
			spans: [][3]int{{1200, 1}, {300, 60}}},
		{k: q4, v: f16, heads: 12, kvHeads: 1, d: 64, p: 32, spans: [][3]int{{700, 1}}},
		// This long sequence has more records than the merge on Metal reads at a time.
		{k: q8, v: f16, heads: 2, kvHeads: 1, d: 32, p: 32, spans: [][3]int{{4400, 1}}},
		{k: bf16, v: q8, heads: 9, kvHeads: 1, d: 96, p: 32, spans: [][3]int{{700, 1}, {30, 12}}},
		{k: k8, v: v4, heads: 4, kvHeads: 2, d: 64, p: 32, start: 512,
			spans: [][3]int{{31, 1}, {511, 1}, {512, 1}, {700, 1}, {1100, 2}, {490, 40},
				{600, 30}}},
		{k: q4, v: bf16, heads: 3, kvHeads: 1, d: 32, p: 32, start: 1024, sinks: true,
			spans: [][3]int{{1030, 3}, {990, 50}}},
		{k: f16, v: q8, heads: 3, kvHeads: 1, d: 32, p: 64, start: 512,
			spans: [][3]int{{1030, 1}, {500, 24}}},
		{k: k8, v: v4, heads: 2, kvHeads: 1, d: 64, p: 32, start: 512,
			spans: [][3]int{{490, 40, 40}, {600, 9, 6}}},
		{k: k8, v: v4, heads: 16, kvHeads: 8, d: 128, p: 32, timed: true,
			spans: [][3]int{{4095, 1}}},
		{k: k8, v: v4, heads: 16, kvHeads: 2, d: 256, p: 32, timed: true,
			spans: [][3]int{{4095, 1}}},
		{k: k8, v: v4, heads: 4, kvHeads: 1, d: 128, p: 32, timed: true,
			spans: [][3]int{{960, 64}}},
		{k: f16, v: f16, heads: 3, kvHeads: 1, d: 32, p: 32,
			spans: [][3]int{{0, 30, 30}, {17, 1, 1}}},
		{k: f32, v: f32, heads: 2, kvHeads: 2, d: 16, p: 48,
			spans: [][3]int{{0, 40, 33}, {510, 1}, {60, 9, 9}}},
		{k: bf16, v: bf16, heads: 5, kvHeads: 1, d: 80, p: 16, sinks: true,
			spans: [][3]int{{2030, 8, 8}, {30, 30, 30}}},
		{k: k8, v: v4, heads: 8, kvHeads: 1, d: 256, p: 32, spans: [][3]int{{70, 5, 5}}},
		{k: k8, v: v4, heads: 2, kvHeads: 1, d: 64, p: 32, window: 70, sinkTokens: 4, sinks: true,
			spans: [][3]int{{2, 80, 80}, {2110, 30, 30}}},
		{k: affine(3, 32), v: affine(5, 32), heads: 2, kvHeads: 1, d: 96, p: 32, window: 33,
			spans: [][3]int{{50, 90, 90}}},
		{k: q8, v: q4, heads: 40, kvHeads: 1, d: 32, p: 32, spans: [][3]int{{100, 2, 2}}},
		{k: affine(2, 32), v: affine(6, 128), heads: 1, kvHeads: 1, d: 128, p: 16,
			spans: [][3]int{{0, 35, 35}}},
		{k: k8, v: v4, heads: 2, kvHeads: 1, d: 64, p: 32, cap: 2, window: 70, sinkTokens: 4,
			spans: [][3]int{{2, 80, 80}, {2110, 30, 30}}},
		{k: bf16, v: bf16, heads: 2, kvHeads: 1, d: 256, p: 32, cap: 3,
			spans: [][3]int{{60, 9, 6}}},
		{k: f16, v: f16, heads: 1, kvHeads: 1, d: 320, p: 16, cap: 3, spans: [][3]int{{90, 2, 2}}},
		{k: f16, v: f16, heads: 1, kvHeads: 1, d: 320, p: 16, spans: [][3]int{{0, 3, 3}}},
		{k: f32, v: f32, heads: 4, kvHeads: 4, d: 32, p: 32, following: MostFollowing,
			spans: [][3]int{{0, 1}, {0, 20}, {0, 90}, {490, 40}}},
		{k: f32, v: f32, heads: 4, kvHeads: 2, d: 64, p: 32, following: MostFollowing,
			spans: [][3]int{{0, 33, 33}, {230, 70, 70}, {0, 2, 2}}},
		{k: f16, v: f16, heads: 2, kvHeads: 1, d: 32, p: 32, following: MostFollowing,
			spans: [][3]int{{2030, 40, 40}}},
		{k: f32, v: f32, heads: 3, kvHeads: 1, d: 64, p: 48, following: 64, window: 65,
			spans: [][3]int{{0, 40}, {0, 150}, {450, 150}}},
		{k: f32, v: f32, heads: 3, kvHeads: 3, d: 64, p: 32, following: 16, window: 17,
			spans: [][3]int{{0, 100, 100}, {0, 9, 9}}},
		{k: k8, v: v4, heads: 8, kvHeads: 2, d: 128, p: 32, following: MostFollowing,
			spans: [][3]int{{0, 90}, {480, 50, 50}, {0, 5}}},
		{k: k8, v: v4, heads: 4, kvHeads: 1, d: 128, p: 32, timed: true,
			spans: [][3]int{{960, 64, 64}}},
		{k: f16, v: f16, heads: 4, kvHeads: 4, d: 64, p: 32, timed: true,
			spans: [][3]int{{0, 160, 160}}},
		{k: k8, v: v4, heads: 16, kvHeads: 2, d: 256, p: 32, cap: 50, timed: true,
			spans: [][3]int{{4095, 1}}},
		{k: f16, v: f16, heads: 4, kvHeads: 1, d: 128, p: 32, cap: 50, timed: true,
			spans: [][3]int{{960, 64}}},
		{k: k8, v: v4, heads: 4, kvHeads: 1, d: 128, p: 32, cap: 50, timed: true,
			spans: [][3]int{{960, 64, 64}}},
	} {
		cases = append(cases, s.toCase())
	}
	for _, s := range latentShapes() {
		cases = append(cases, s.toCase())
	}
	return cases
}

// latentShapes returns shapes of multi-head latent attention: 16 to 128 heads over one vector of
// each position, and fewer of tiny models.
func latentShapes() []shape {
	f16, k8 := FloatFormat(kernels.F16), affine(8, 64)
	return []shape{
		{k: FloatFormat(kernels.F32), heads: 4, kvHeads: 1, d: 48, valueDim: 32, p: 32,
			spans: [][3]int{{0, 1}, {510, 3}, {20, 50}}},
		{k: f16, heads: 20, kvHeads: 1, d: 576, valueDim: 512, p: 32,
			spans: [][3]int{{0, 5}, {700, 1}}},
		{k: FloatFormat(kernels.BF16), heads: 128, kvHeads: 1, d: 96, valueDim: 80, p: 48,
			spans: [][3]int{{600, 1}, {40, 2, 2}}},
		{k: k8, heads: 20, kvHeads: 1, d: 576, valueDim: 512, p: 32,
			spans: [][3]int{{31, 1}, {700, 2}}},
		{k: k8, heads: 3, kvHeads: 1, d: 192, valueDim: 128, p: 32, start: 512,
			spans: [][3]int{{500, 20}, {1040, 1}}},
		{k: Format{Kind: Q4_0}, heads: 16, kvHeads: 1, d: 96, valueDim: 64, p: 16, window: 100,
			sinkTokens: 4, spans: [][3]int{{3, 40}, {700, 1}}},
		{k: affine(5, 32), heads: 6, kvHeads: 1, d: 160, valueDim: 128, p: 32,
			spans: [][3]int{{90, 30, 30}}},
		{k: k8, heads: 20, kvHeads: 1, d: 576, valueDim: 512, p: 32, timed: true,
			spans: [][3]int{{4095, 1}}},
		{k: f16, heads: 20, kvHeads: 1, d: 576, valueDim: 512, p: 32, timed: true,
			spans: [][3]int{{4095, 1}}},
	}
}

func (s shape) toCase() kernels.Case {
	c := kernels.Case{
		Name:   s.name(),
		AbsTol: 1e-5, RelTol: 1e-5,
		Why: "float32 scores of 32 to 256 products and weighted sums of up to 2,048 values of " +
			"size 1; the reference sums in float64",
		New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
			o := s.build(d, r)
			return o, []kernels.Tensor{o.Out}
		},
	}
	if s.v.quantized() {
		c.AbsTol = 4e-4
		c.Why += "; weights are rounded to multiples of 1/32512 of the largest weight of a tile, " +
			"which gives each of 64 positions a random error of up to 1/65024, times its value's " +
			"distance of up to 3 from the middle of the group's range"
	}
	if s.timed {
		c.Bytes, c.Flops = s.work()
	}
	return c
}

package attention

// Writing to the cache. Keys and values are quantized here, once per token, and the result depends
// only on that token. Attention reads the key of a row's own position from the cache too.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Append writes the keys and values of each span's rows into the cache at the span's positions,
// rounded to the cache's format. K and V are float32 [M, KVH*D]. V is none if the cache has none.
// Append does not read rows outside the spans and does not change other positions of a page.
type Append struct {
	K, V  kernels.Tensor
	Cache *Cache
	Spans []kernels.Span
}

// Name implements kernels.Op.
func (o *Append) Name() string { return "kv_append" }

// Check implements kernels.Op.
func (o *Append) Check() error {
	if err := o.Cache.check(); err != nil {
		return err
	}
	cols := o.Cache.KVHeads * o.Cache.HeadDim
	var err error
	switch {
	case !o.Cache.latent():
		err = kernels.CheckShape("v", o.V, kernels.F32, o.K.Rows, cols)
	case !o.V.IsNone():
		err = fmt.Errorf("v: got %s, expected none for a cache without V", o.V)
	}
	return errors.Join(err,
		kernels.CheckShape("k", o.K, kernels.F32, -1, cols),
		kernels.CheckSpans(o.Spans, o.K.Rows),
		o.Cache.checkPages(o.Spans, spanPos, 0))
}

func spanPos(s *kernels.Span) int { return s.Pos }

// Reference implements kernels.Op.
func (o *Append) Reference() {
	for i := range o.Spans {
		o.rows(&o.Spans[i], 0, o.Spans[i].Rows, 0, o.Cache.KVHeads)
	}
}

// rows appends rows [from, to) of a span for heads [firstHead, endHead). It is the specification,
// and builds without cgo run it.
func (o *Append) rows(s *kernels.Span, from, to, firstHead, endHead int) {
	d := o.Cache.HeadDim
	for r := from; r < to; r++ {
		k, keys := o.K.Row(s.Row+r), o.Cache.keys(s.Pos+r)
		for head := firstHead; head < endHead; head++ {
			keys.write(k[head*d:][:d], s.Pages, head, s.Pos+r)
		}
		if o.Cache.latent() {
			continue
		}
		v, values := o.V.Row(s.Row+r), o.Cache.values(s.Pos+r)
		for head := firstHead; head < endHead; head++ {
			values.write(v[head*d:][:d], s.Pages, head, s.Pos+r)
		}
	}
}

// The phases of CPU differ in what threads share.
const (
	appendRows  = iota // rows of the batch, each with all heads
	appendHeads        // heads, each with all rows
)

// fewAppended is the number of rows below which threads share heads instead of rows, and the fewest
// rows that a thread takes at a time.
const fewAppended = 16

// CPU implements kernels.Op. Rows and heads are independent. With few rows, threads share the
// heads: 512 elements of keys take about 3 µs, which is enough work for a thread.
func (o *Append) CPU(c *cpu.Context) {
	if o.K.Rows < fewAppended {
		c.Parallel(o, appendHeads, o.Cache.KVHeads, 1+512/(max(o.K.Rows, 1)*o.Cache.HeadDim))
		return
	}
	c.Parallel(o, appendRows, o.K.Rows, max(fewAppended, 16384/o.K.Cols))
}

// CPURange implements cpu.Task for rows [from, to) of the batch or for heads [from, to).
func (o *Append) CPURange(c *cpu.Context, phase, _, from, to int) {
	firstHead, endHead := 0, o.Cache.KVHeads
	if phase == appendHeads {
		firstHead, endHead, from, to = from, to, 0, o.K.Rows
	}
	for i := range o.Spans {
		s := &o.Spans[i]
		first, end := max(from-s.Row, 0), min(to-s.Row, s.Rows)
		if first >= end {
			continue
		}
		if c.ISA == cpu.Generic {
			o.rows(s, first, end, firstHead, endHead)
		} else {
			o.native(c.ISA, s, first, end, firstHead, endHead)
		}
	}
}

func kvAppendCases() []kernels.Case {
	f16, bf16, f32 := FloatFormat(kernels.F16), FloatFormat(kernels.BF16), FloatFormat(kernels.F32)
	q8, q4 := Format{Kind: Q8_0}, Format{Kind: Q4_0}
	type shape struct {
		k, v                             Format
		kvHeads, headDim, page, pos, row int
		valueDim                         int
	}
	shapes := []shape{
		{f16, f16, 2, 64, 32, 0, 1, 0}, {f16, f16, 8, 128, 32, 31, 40, 0},
		{bf16, bf16, 1, 256, 16, 100, 17, 0}, {f32, f32, 3, 32, 48, 7, 70, 0},
		{f16, f16, 8, 128, 32, 0, 512, 0}, {f16, f16, 8, 128, 32, 4095, 1, 0},
		{q8, q4, 2, 96, 48, 5, 60, 0}, {q4, q8, 1, 32, 16, 0, 40, 0},
		{affine(8, 64), affine(4, 32), 8, 128, 32, 0, 512, 0},
		{affine(8, 64), affine(4, 32), 8, 128, 32, 4095, 1, 0},
	}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		shapes = append(shapes, shape{affine(bits, 32), affine(bits, 128), 2, 128, 32, 9, 40, 0})
	}
	for _, f := range []Format{f16, affine(8, 64)} {
		shapes = append(shapes, shape{f, f, 1, 192, 32, 30, 40, 128})
	}
	var cases []kernels.Case
	add := func(s shape, startTokens int) {
		name := fmt.Sprintf("kv_append_%s_kvh%d_d%d_p%d_pos%d_m%d", formatNames(s.k, s.v),
			s.kvHeads, s.headDim, s.page, s.pos, s.row)
		if s.valueDim > 0 {
			name += fmt.Sprintf("_latent%d", s.valueDim)
		}
		if startTokens > 0 {
			name += fmt.Sprintf("_start%d", startTokens)
		}
		cases = append(cases, kernels.Case{
			Name: name,
			Bytes: int64(s.row * s.kvHeads *
				(8*s.headDim + s.k.RowBytes(s.headDim) + s.v.RowBytes(s.headDim))),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				pages := (s.pos+s.row+s.page-1)/s.page + 1
				start, total := startFor(startTokens, pages)
				o := &Append{K: kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3)}
				if s.valueDim > 0 {
					o.Cache = NewLatentCache(d, s.k, s.headDim, s.valueDim, s.page, total, start)
				} else {
					o.V = kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3)
					o.Cache = NewCache(d, s.k, s.v, s.kvHeads, s.headDim, s.page, total, start)
				}
				o.Spans = []kernels.Span{{Rows: s.row, Pos: s.pos,
					Pages: start.place(randomPages(r, pages), s.page)}}
				return o, o.Cache.tensors()
			},
		})
	}
	for _, s := range shapes {
		add(s, 0)
	}
	for _, f := range [][2]Format{{affine(8, 64), affine(4, 32)}, {q4, bf16}} {
		// Rows across the end of the Start, within it and after it.
		add(shape{f[0], f[1], 2, 64, 32, 480, 64, 0}, 512)
		add(shape{f[0], f[1], 2, 64, 32, 30, 3, 0}, 512)
		add(shape{f[0], f[1], 2, 64, 32, 1030, 1, 0}, 512)
	}
	return cases
}

func affine(bits, group int) Format { return Format{Kind: Affine, Bits: bits, Group: group} }

// formatNames returns the formats of K and V for the name of a case, as one name if they are the
// same.
func formatNames(k, v Format) string {
	name := strings.ReplaceAll(k.String(), " ", "_")
	if k != v {
		name += "_" + strings.ReplaceAll(v.String(), " ", "_")
	}
	return name
}

// tensors returns K and V as matrices with one row per page, pages of the Start first, for cases
// that compare them.
func (c *Cache) tensors() (all []kernels.Tensor) {
	of := func(b *kernels.Buffer, f Format, from, to, offset, pageBytes int) {
		t := kernels.Tensor{Buffer: b, Offset: offset + from*pageBytes, DType: kernels.U8,
			Rows: to - from, Cols: pageBytes, Stride: pageBytes}
		if f == FloatFormat(kernels.F32) { // compared as numbers
			t.DType, t.Cols, t.Stride = kernels.F32, pageBytes/4, pageBytes/4
		}
		all = append(all, t)
	}
	for _, start := range []bool{true, false} {
		from, to := c.Start.Pages, c.Pages()
		if start {
			from, to = 0, c.Start.Pages
		}
		if from == to {
			continue
		}
		offset, pageBytes := c.KPages(start)
		of(c.K, c.KFormat, from, to, offset, pageBytes)
		if offset, pageBytes = c.VPages(start); pageBytes > 0 {
			of(c.V, c.VFormat, from, to, offset, pageBytes)
		}
	}
	return all
}

// startFor returns a Start with the given numbers of tokens and pages, and the total number of
// pages of a cache that has as many other pages. If tokens is 0 there is no Start, and total equals
// pages.
func startFor(tokens, pages int) (start Start, total int) {
	if tokens == 0 {
		return Start{}, pages
	}
	return Start{Tokens: tokens, Pages: pages}, 2 * pages
}

// place turns a page table with entries below s.Pages into one for a cache made by startFor: the
// entries after the Start move to the cache's other pages.
func (s Start) place(table []int32, pageTokens int) []int32 {
	for i := s.Tokens / pageTokens; i < len(table); i++ {
		table[i] += int32(s.Pages)
	}
	return table
}

// randomPages returns a page table of n pages in random order.
func randomPages(r *rand.Rand, n int) []int32 {
	pages := make([]int32, n)
	for i, p := range r.Perm(n) {
		pages[i] = int32(p)
	}
	return pages
}

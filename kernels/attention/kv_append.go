package attention

// Writing to the cache: quantization happens here, once per token, and its result depends on that
// token alone. Attention then reads a row's own key back like all others.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Append writes the keys and values of each span's rows into the cache at the span's positions,
// rounded to the cache's format. K and V are float32 [M, KVH*D]. Rows outside every span are not
// looked at; the rest of a page is left as it is.
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
	return errors.Join(
		kernels.CheckShape("k", o.K, kernels.F32, -1, cols),
		kernels.CheckShape("v", o.V, kernels.F32, o.K.Rows, cols),
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

// rows is the specification for rows [from, to) of a span and some of the heads, and what runs in
// builds without cgo.
func (o *Append) rows(s *kernels.Span, from, to, firstHead, endHead int) {
	d := o.Cache.HeadDim
	for r := from; r < to; r++ {
		k, v := o.K.Row(s.Row+r), o.V.Row(s.Row+r)
		keys, values := o.Cache.keys(s.Pos+r), o.Cache.values(s.Pos+r)
		for head := firstHead; head < endHead; head++ {
			keys.write(k[head*d:][:d], s.Pages, head, s.Pos+r)
			values.write(v[head*d:][:d], s.Pages, head, s.Pos+r)
		}
	}
}

// What units of CPU's work are.
const (
	appendRows  = iota // with all of their heads
	appendHeads        // with all of the rows
)

// rows from which on rows are the units, and the least of them that a thread takes at a time
const fewAppended = 16

// CPU implements kernels.Op: rows and heads are independent. Of few rows, heads are shared out: 512
// elements of keys take some 3 µs.
func (o *Append) CPU(c *cpu.Context) {
	if o.K.Rows < fewAppended {
		c.Parallel(o, appendHeads, o.Cache.KVHeads, 1+512/(max(o.K.Rows, 1)*o.Cache.HeadDim))
		return
	}
	c.Parallel(o, appendRows, o.K.Rows, max(fewAppended, 16384/o.K.Cols))
}

// CPURange implements cpu.Task for rows of the batch, or heads, [from, to).
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
	}
	shapes := []shape{
		{f16, f16, 2, 64, 32, 0, 1}, {f16, f16, 8, 128, 32, 31, 40},
		{bf16, bf16, 1, 256, 16, 100, 17}, {f32, f32, 3, 32, 48, 7, 70},
		{f16, f16, 8, 128, 32, 0, 512}, {f16, f16, 8, 128, 32, 4095, 1},
		{q8, q4, 2, 96, 48, 5, 60}, {q4, q8, 1, 32, 16, 0, 40},
		{affine(8, 64), affine(4, 32), 8, 128, 32, 0, 512},
		{affine(8, 64), affine(4, 32), 8, 128, 32, 4095, 1},
	}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		shapes = append(shapes, shape{affine(bits, 32), affine(bits, 128), 2, 128, 32, 9, 40})
	}
	var cases []kernels.Case
	add := func(s shape, startTokens int) {
		name := fmt.Sprintf("kv_append_%s_kvh%d_d%d_p%d_pos%d_m%d", formatNames(s.k, s.v),
			s.kvHeads, s.headDim, s.page, s.pos, s.row)
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
				o := &Append{
					K:     kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3),
					V:     kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3),
					Cache: NewCache(d, s.k, s.v, s.kvHeads, s.headDim, s.page, total, start),
					Spans: []kernels.Span{{Rows: s.row, Pos: s.pos,
						Pages: start.place(randomPages(r, pages), s.page)}},
				}
				return o, o.Cache.tensors()
			},
		})
	}
	for _, s := range shapes {
		add(s, 0)
	}
	for _, f := range [][2]Format{{affine(8, 64), affine(4, 32)}, {q4, bf16}} {
		// across the end of a start, in it, and behind it
		add(shape{f[0], f[1], 2, 64, 32, 480, 64}, 512)
		add(shape{f[0], f[1], 2, 64, 32, 30, 3}, 512)
		add(shape{f[0], f[1], 2, 64, 32, 1030, 1}, 512)
	}
	return cases
}

func affine(bits, group int) Format { return Format{Kind: Affine, Bits: bits, Group: group} }

// formatNames is how cases name the formats of a cache: as one word where K and V have the same.
func formatNames(k, v Format) string {
	name := strings.ReplaceAll(k.String(), " ", "_")
	if k != v {
		name += "_" + strings.ReplaceAll(v.String(), " ", "_")
	}
	return name
}

// tensors are K and V as matrices with a row per page, of the start first, for cases that compare
// them.
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
		offset, pageBytes = c.VPages(start)
		of(c.V, c.VFormat, from, to, offset, pageBytes)
	}
	return all
}

// startFor is a start of tokens positions, none if that is 0, for a cache of pages pages in either
// part; total is all of them.
func startFor(tokens, pages int) (start Start, total int) {
	if tokens == 0 {
		return Start{}, pages
	}
	return Start{Tokens: tokens, Pages: pages}, 2 * pages
}

// place makes page numbers of either part of what startFor gives from numbers below its pages.
func (s Start) place(table []int32, pageTokens int) []int32 {
	for i := s.Tokens / pageTokens; i < len(table); i++ {
		table[i] += int32(s.Pages)
	}
	return table
}

// randomPages is a page table that hands out the n pages of a cache in random order.
func randomPages(r *rand.Rand, n int) []int32 {
	pages := make([]int32, n)
	for i, p := range r.Perm(n) {
		pages[i] = int32(p)
	}
	return pages
}

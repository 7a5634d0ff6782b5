package attention

// Writing to the cache: quantization happens here, once per token, and its result depends on that token alone. Attention then
// reads a row's own key back like all others.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Append writes the keys and values of each span's rows into the cache at the span's positions, rounded to the cache's
// format. K and V are float32 [M, KVH*D]. Rows outside every span are not looked at; the rest of a page is left as it is.
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
		o.rows(&o.Spans[i], 0, o.Spans[i].Rows)
	}
}

// rows is the specification for rows [from, to) of a span, and what runs in builds without cgo.
func (o *Append) rows(s *kernels.Span, from, to int) {
	d, keys, values := o.Cache.HeadDim, o.Cache.keys(), o.Cache.values()
	for r := from; r < to; r++ {
		k, v := o.K.Row(s.Row+r), o.V.Row(s.Row+r)
		for head := range o.Cache.KVHeads {
			keys.write(k[head*d:][:d], s.Pages, head, s.Pos+r)
			values.write(v[head*d:][:d], s.Pages, head, s.Pos+r)
		}
	}
}

// CPU implements kernels.Op: rows are independent.
func (o *Append) CPU(c *cpu.Context) {
	c.Parallel(o, 0, o.K.Rows, max(16, 16384/o.K.Cols))
}

// CPURange implements cpu.Task for rows [from, to) of the batch.
func (o *Append) CPURange(c *cpu.Context, _, _, from, to int) {
	for i := range o.Spans {
		s := &o.Spans[i]
		first, end := max(from-s.Row, 0), min(to-s.Row, s.Rows)
		if first >= end {
			continue
		}
		if c.ISA == cpu.Generic {
			o.rows(s, first, end)
		} else {
			o.native(c.ISA, s, first, end)
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
		{f16, f16, 2, 64, 32, 0, 1}, {f16, f16, 8, 128, 32, 31, 40}, {bf16, bf16, 1, 256, 16, 100, 17}, {f32, f32, 3, 32, 48, 7, 70},
		{f16, f16, 8, 128, 32, 0, 512}, {f16, f16, 8, 128, 32, 4095, 1},
		{q8, q4, 2, 96, 48, 5, 60}, {q4, q8, 1, 32, 16, 0, 40}, {affine(8, 64), affine(4, 32), 8, 128, 32, 0, 512}, {affine(8, 64), affine(4, 32), 8, 128, 32, 4095, 1},
	}
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		shapes = append(shapes, shape{affine(bits, 32), affine(bits, 128), 2, 128, 32, 9, 40})
	}
	var cases []kernels.Case
	for _, s := range shapes {
		cases = append(cases, kernels.Case{
			Name:  fmt.Sprintf("kv_append_%s_kvh%d_d%d_p%d_pos%d_m%d", formatNames(s.k, s.v), s.kvHeads, s.headDim, s.page, s.pos, s.row),
			Bytes: int64(s.row * s.kvHeads * (8*s.headDim + s.k.RowBytes(s.headDim) + s.v.RowBytes(s.headDim))),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				pages := (s.pos+s.row+s.page-1)/s.page + 1
				o := &Append{
					K:     kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3),
					V:     kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3),
					Cache: NewCache(d, s.k, s.v, s.kvHeads, s.headDim, s.page, pages),
					Spans: []kernels.Span{{Rows: s.row, Pos: s.pos, Pages: randomPages(r, pages)}},
				}
				return o, o.Cache.tensors()
			},
		})
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

// tensors are K and V as matrices with a row per page, for cases that compare them.
func (c *Cache) tensors() []kernels.Tensor {
	of := func(b *kernels.Buffer, f Format, pageBytes int) kernels.Tensor {
		t := kernels.Tensor{Buffer: b, DType: kernels.U8, Rows: c.Pages(), Cols: pageBytes, Stride: pageBytes}
		if f == FloatFormat(kernels.F32) { // compared as numbers
			t.DType, t.Cols, t.Stride = kernels.F32, pageBytes/4, pageBytes/4
		}
		return t
	}
	return []kernels.Tensor{of(c.K, c.KFormat, c.KPageBytes()), of(c.V, c.VFormat, c.VPageBytes())}
}

// randomPages is a page table that hands out the n pages of a cache in random order.
func randomPages(r *rand.Rand, n int) []int32 {
	pages := make([]int32, n)
	for i, p := range r.Perm(n) {
		pages[i] = int32(p)
	}
	return pages
}

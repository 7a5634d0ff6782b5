package attention

import (
	"errors"
	"fmt"
	"math/rand/v2"

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
		o.Cache.checkPages(o.Spans, spanPos))
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
	c := o.Cache
	for r := from; r < to; r++ {
		k, v := o.K.Row(s.Row+r), o.V.Row(s.Row+r)
		for i := range k {
			head, dim := i/c.HeadDim, i%c.HeadDim
			c.store(c.K, c.kIndex(s.Pages, head, s.Pos+r, dim), k[i])
			c.store(c.V, c.vIndex(s.Pages, head, s.Pos+r, dim), v[i])
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
	var cases []kernels.Case
	for _, s := range []struct {
		dtype                            kernels.DType
		kvHeads, headDim, page, pos, row int
	}{
		{kernels.F16, 2, 64, 32, 0, 1}, {kernels.F16, 8, 128, 32, 31, 40}, {kernels.BF16, 1, 256, 16, 100, 17}, {kernels.F32, 3, 32, 48, 7, 70},
		{kernels.F16, 8, 128, 32, 0, 512}, {kernels.F16, 8, 128, 32, 4095, 1},
	} {
		cases = append(cases, kernels.Case{
			Name:  fmt.Sprintf("kv_append_%s_kvh%d_d%d_p%d_pos%d_m%d", s.dtype, s.kvHeads, s.headDim, s.page, s.pos, s.row),
			Bytes: int64(2 * s.row * s.kvHeads * s.headDim * (4 + s.dtype.Size())),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				pages := (s.pos+s.row+s.page-1)/s.page + 1
				o := &Append{
					K:     kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3),
					V:     kernels.RandomTensor(d, r, s.row, s.kvHeads*s.headDim, 3),
					Cache: NewCache(d, s.dtype, s.kvHeads, s.headDim, s.page, pages),
					Spans: []kernels.Span{{Rows: s.row, Pos: s.pos, Pages: randomPages(r, pages)}},
				}
				return o, o.Cache.tensors()
			},
		})
	}
	return cases
}

// tensors are K and V as matrices with a row per page, for cases that compare them.
func (c *Cache) tensors() []kernels.Tensor {
	t := kernels.Tensor{Buffer: c.K, DType: c.DType, Rows: c.Pages(), Cols: c.PageBytes() / c.DType.Size()}
	t.Stride = t.Cols
	u := t
	u.Buffer = c.V
	return []kernels.Tensor{t, u}
}

// randomPages is a page table that hands out the n pages of a cache in random order.
func randomPages(r *rand.Rand, n int) []int32 {
	pages := make([]int32, n)
	for i, p := range r.Perm(n) {
		pages[i] = int32(p)
	}
	return pages
}

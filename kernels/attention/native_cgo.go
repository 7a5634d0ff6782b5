//go:build cgo

package attention

/*
#cgo CFLAGS: -O3 -std=c11 -g0
#cgo LDFLAGS: -lm
#cgo noescape headroom_kv_append
#cgo nocallback headroom_kv_append
#cgo noescape headroom_attention
#cgo nocallback headroom_attention
#cgo noescape headroom_attention_merge
#cgo nocallback headroom_attention_merge
#cgo noescape headroom_attention_observe
#cgo nocallback headroom_attention_observe
#include "kv_append.h"
#include "paged_attention.h"
*/
import "C"

import (
	"unsafe"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

func ptr(t kernels.Tensor) *C.float { return (*C.float)(t.Ptr()) }

func (f Format) c() (s C.struct_kv_format) {
	s.dtype = C.int64_t(f.DType)
	if f.quantized() {
		s.bits, s.group, s.zero = C.int64_t(f.bits()), C.int64_t(f.group()), C.int64_t(f.zero())
	}
	return s
}

func first(f []float32) *C.float { return (*C.float)(unsafe.SliceData(f)) }

func (o *Append) native(isa cpu.ISA, s *kernels.Span, from, to, firstHead, endHead int) {
	start := min(max(from, o.Cache.Start.Tokens-s.Pos), to)
	o.nativePart(isa, s, from, start, firstHead, endHead)
	o.nativePart(isa, s, start, to, firstHead, endHead)
}

// nativePart appends rows [from, to), which are all in the Start or all after it.
func (o *Append) nativePart(isa cpu.ISA, s *kernels.Span, from, to, firstHead, endHead int) {
	if from == to {
		return
	}
	c := o.Cache
	keys, values := c.keys(s.Pos+from), c.values(s.Pos+from)
	k, v := ptr(o.K.RowRange(s.Row+from, s.Row+to)), (*C.float)(nil)
	if !c.latent() {
		v = ptr(o.V.RowRange(s.Row+from, s.Row+to))
	}
	shape := C.struct_kv_append_shape{
		k: keys.f.c(), v: values.f.c(), kv_heads: C.int64_t(c.KVHeads),
		head_dim: C.int64_t(c.HeadDim), page_tokens: C.int64_t(c.PageTokens),
		rows: C.int64_t(to - from), pos: C.int64_t(s.Pos + from), first_head: C.int64_t(firstHead),
		end_head: C.int64_t(endHead),
		k_stride: C.int64_t(o.K.Stride), v_stride: C.int64_t(o.V.Stride),
	}
	C.headroom_kv_append(C.int(isa), &shape, k, v, cpu.Ptr(keys.bytes),
		cpu.Ptr(values.bytes), (*C.int32_t)(unsafe.SliceData(s.Pages)))
}

// shape returns u as a C struct, with pointers to its queries, its output and its sinks.
func (o *Attention) shape(u unit) (s C.struct_attention_unit, q, out, sinks *C.float) {
	c, group := o.Cache, o.group()
	s = C.struct_attention_unit{
		k: c.KFormat.c(), v: c.VFormat.c(), kv_heads: C.int64_t(c.KVHeads),
		head_dim: C.int64_t(c.HeadDim), value_dim: C.int64_t(c.valueDim()),
		page_tokens: C.int64_t(c.PageTokens),
		kv_head:     C.int64_t(u.kvHead), group: C.int64_t(group),
		rows: C.int64_t(u.rows), pos: C.int64_t(u.span.Pos + u.row), window: C.int64_t(o.Window),
		following: C.int64_t(o.Following), end: C.int64_t(u.span.Pos + u.span.Rows),
		sink_tokens: C.int64_t(o.SinkTokens),
		from:        C.int64_t(u.from), to: C.int64_t(u.to),
		q_stride: C.int64_t(o.Q.Stride), out_stride: C.int64_t(o.Out.Stride),
		scale: C.float(o.Scale), cap: C.float(o.Cap),
	}
	if c.Start.Tokens > 0 {
		s.start_tokens, s.start_k, s.start_v = C.int64_t(c.Start.Tokens), c.KFormat.AtStart().c(),
			c.VFormat.AtStart().c()
		k, _ := c.KPages(false)
		v, _ := c.VPages(false)
		s.k_offset, s.v_offset = C.int64_t(k), C.int64_t(v)
	}
	if c.latent() {
		s.v, s.start_v, s.v_offset = s.k, s.start_k, s.k_offset
	}
	if u.sinks {
		s.sinks = 1
	}
	if o.exact {
		s.exact = 1
	}
	row, head := u.span.Row+u.row, u.kvHead*group
	rows := func(t kernels.Tensor, dims int) *C.float {
		return ptr(t.RowRange(row, row+u.rows).Columns(head*dims, (head+group)*dims))
	}
	if !o.Sinks.IsNone() {
		sinks = ptr(o.Sinks.Columns(head, head+group))
	}
	return s, rows(o.Q, c.HeadDim), rows(o.Out, c.valueDim()), sinks
}

func (o *Attention) native(isa cpu.ISA, u unit, scratch []float32) {
	shape, q, out, sinks := o.shape(u)
	values := o.Cache.K
	if !o.Cache.latent() {
		values = o.Cache.V
	}
	C.headroom_attention(C.int(isa), &shape, q, out, sinks, cpu.Ptr(o.Cache.K.Bytes),
		cpu.Ptr(values.Bytes),
		(*C.int32_t)(unsafe.SliceData(u.span.Pages)), first(scratch), first(u.partials))
}

func (o *Attention) nativeMerge(isa cpu.ISA, i int, scratch []float32) {
	u, stride, ok := o.splitUnit(i)
	if !ok {
		return
	}
	shape, _, out, sinks := o.shape(u)
	shape.part_stride = C.int64_t(stride)
	C.headroom_attention_merge(C.int(isa), &shape, out, sinks, first(u.partials), first(scratch))
}

func (o *Select) native(isa cpu.ISA, u unit, scratch, records, sums []float32) {
	shape, q, _, _ := o.attention.shape(u)
	C.headroom_attention_observe(C.int(isa), &shape, q, cpu.Ptr(o.Cache.K.Bytes),
		(*C.int32_t)(unsafe.SliceData(u.span.Pages)), first(scratch), first(records), first(sums))
}

package attention

import (
	_ "embed"
	"maps"
	"sync/atomic"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed kv_append.metal
var kvAppendText string

var (
	kvAppendSource  = &gpu.Source{Name: "attention/kv_append.metal", Text: kvAppendText}
	kvAppendKernels variants[[2]Format, kvAppendParams] // by the formats of K and V
)

// variants holds the kernels of one function name by a key that determines their function
// constants. A kernel is made on first use and kept. It is safe for concurrent use.
type variants[K comparable, P any] struct {
	m atomic.Pointer[map[K]*gpu.Kernel[P]]
}

// find returns the kernel of key, or nil if there is none yet.
func (v *variants[K, P]) find(key K) *gpu.Kernel[P] {
	if m := v.m.Load(); m != nil {
		return (*m)[key]
	}
	return nil
}

// add stores k under key and returns it, unless another goroutine has added a kernel in the
// meantime. Then it returns that one.
func (v *variants[K, P]) add(key K, k *gpu.Kernel[P]) *gpu.Kernel[P] {
	for {
		old, next := v.m.Load(), map[K]*gpu.Kernel[P]{}
		if old != nil {
			if other := (*old)[key]; other != nil {
				return other
			}
			maps.Copy(next, *old)
		}
		next[key] = k
		if v.m.CompareAndSwap(old, &next) {
			return k
		}
	}
}

// constants returns the function constants of f. Their names begin with prefix.
func (f Format) constants(prefix string) []metal.ConstantValue {
	dtype := f.DType
	if f.quantized() {
		dtype = 0
	}
	return []metal.ConstantValue{
		{Name: prefix + "_dtype", Value: uint32(dtype)},
		{Name: prefix + "_bits", Value: uint32(f.bits())},
		{Name: prefix + "_group", Value: uint32(f.group())},
		{Name: prefix + "_zero", Value: uint32(f.zero())},
	}
}

// kvAppendParams is KVAppendParams of kv_append.metal. Strides are in elements.
type kvAppendParams struct {
	KVHeads, HeadDim, PageTokens uint32
	KStride, VStride             uint32
	Values                       uint32
	StartTokens, StartPages      uint32
	Spans                        int32
}

const kvAppendSimdgroups = 4 // per threadgroup, untuned

// Metal implements gpu.Op. Each simdgroup appends one row of one head of K or of V.
func (o *Append) Metal(c *gpu.Context) {
	cache, parts := o.Cache, 1
	p := kvAppendParams{
		KVHeads: uint32(cache.KVHeads), HeadDim: uint32(cache.HeadDim),
		PageTokens: uint32(cache.PageTokens),
		KStride:    uint32(o.K.Stride), VStride: uint32(o.V.Stride),
		StartTokens: uint32(cache.Start.Tokens), StartPages: uint32(cache.Start.Pages),
		Spans: int32(len(o.Spans)),
	}
	values := gpu.Write(kernels.Tensor{})
	if !cache.latent() {
		p.Values, parts = 1, 2
		values = gpu.WriteBytes(cache.V, 0, cache.V.Size)
	}
	key := [2]Format{cache.KFormat, cache.VFormat}
	k := kvAppendKernels.find(key)
	if k == nil {
		constants := append(cache.KFormat.constants("k"), cache.VFormat.constants("v")...)
		k = kvAppendKernels.add(key,
			gpu.NewKernel[kvAppendParams](kvAppendSource, "kv_append", constants...))
	}
	sg := c.Choose(appendSimdgroups, cache.shape(o.K.Rows, parts), kvAppendSimdgroups)
	g := gpu.Grid{
		Groups:           metal.Size{X: o.K.Rows, Y: (parts*cache.KVHeads + sg - 1) / sg, Z: 1},
		Threads:          metal.Size{X: 32 * sg, Y: 1, Z: 1},
		ThreadgroupBytes: (sg*cache.HeadDim + 15) &^ 15,
	}
	k.Dispatch(c, p, g, gpu.Read(o.K), gpu.Read(o.V),
		gpu.Ints(spansAndPages(c, o.Spans, cache.PageTokens)),
		gpu.WriteBytes(cache.K, 0, cache.K.Size), values)
}

// spansAndPages returns a table of Span (common/span.h) followed by the page tables of the spans.
// The slot of a Span is the index of its page table in the integers after the spans.
func spansAndPages(c *gpu.Context, spans []kernels.Span, pageTokens int) []int32 {
	size := 4 * len(spans)
	for i := range spans {
		size += (spans[i].Pos + spans[i].Rows + pageTokens - 1) / pageTokens
	}
	table, at := c.Table(size), 4*len(spans)
	for i := range spans {
		s := &spans[i]
		copy(table[4*i:], []int32{int32(s.Row), int32(s.Rows), int32(s.Pos),
			int32(at - 4*len(spans))})
		at += copy(table[at:], s.Pages[:(s.Pos+s.Rows+pageTokens-1)/pageTokens])
	}
	return table
}

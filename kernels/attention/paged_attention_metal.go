package attention

import (
	_ "embed"
	"fmt"

	"headroom/kernels/gpu"
	"headroom/metal"
)

//go:embed paged_attention.metal
var attentionText string

var (
	attentionSource = &gpu.Source{Name: "attention/paged_attention.metal", Text: attentionText}
	attendKernels   variants[attentionVariant, attentionParams]
	mergeKernels    variants[attentionVariant, attentionParams]
)

// attentionVariant is what the constants of a kernel follow from.
type attentionVariant struct {
	k, v             Format
	vectors, headDim int
}

// attentionParams is AttentionParams of paged_attention.metal; strides in elements.
type attentionParams struct {
	KVHeads, Group, PageTokens uint32
	QStride, OutStride         uint32
	Window, SinkTokens         uint32
	HasSinks, Spans            uint32
	Scale                      float32
}

// The same numbers stand in paged_attention.metal.
const (
	metalVectors    = 8   // of a block, at most
	metalSegment    = 256 // positions of a record
	metalSimdgroups = 4   // of a threadgroup
	metalHeadDim    = 512 // the largest
	// metalFull is the threadgroups that fill a GPU: a span with fewer blocks is split by segments.
	metalFull = 256
)

// Metal implements gpu.Op: a threadgroup to 8 vectors of a KV head, and to one segment of a span that has few of them.
func (o *Attention) Metal(c *gpu.Context) {
	cache := o.Cache
	if cache.HeadDim > metalHeadDim {
		panic(fmt.Sprintf("attention: heads of %d dimensions on Metal, expected at most %d: run the model on the CPU", cache.HeadDim, metalHeadDim))
	}
	p := attentionParams{
		KVHeads: uint32(cache.KVHeads), Group: uint32(o.group()), PageTokens: uint32(cache.PageTokens),
		QStride: uint32(o.Q.Stride), OutStride: uint32(o.Out.Stride), Window: uint32(o.Window), SinkTokens: uint32(o.SinkTokens),
		Spans: uint32(len(o.Spans)), Scale: o.Scale,
	}
	if !o.Sinks.IsNone() {
		p.HasSinks = 1
	}
	vectors := 1
	for i := range o.Spans {
		vectors = max(vectors, min(metalVectors, o.Spans[i].Rows*o.group()))
	}
	table, blocks, records, segments := o.metalTable(c, vectors)
	key := attentionVariant{cache.KFormat, cache.VFormat, vectors, cache.HeadDim}
	attend, merge := attendKernels.find(key), mergeKernels.find(key)
	if attend == nil || merge == nil {
		constants := append(cache.KFormat.constants("k"), cache.VFormat.constants("v")...)
		constants = append(constants, metal.ConstantValue{Name: "vectors", Value: uint32(vectors)}, metal.ConstantValue{Name: "head_dim", Value: uint32(cache.HeadDim)})
		attend = attendKernels.add(key, gpu.NewKernel[attentionParams](attentionSource, "attend", constants...))
		merge = mergeKernels.add(key, gpu.NewKernel[attentionParams](attentionSource, "attend_merge", constants...))
	}
	spans := gpu.Ints(table)
	partial := c.Scratch(max(1, records*cache.KVHeads*vectors*(cache.HeadDim+2)) * 4)
	attend.Dispatch(c, p, gpu.Grid{
		Groups:           metal.Size{X: max(1, segments), Y: cache.KVHeads, Z: blocks},
		Threads:          metal.Size{X: 32 * metalSimdgroups, Y: 1, Z: 1},
		ThreadgroupBytes: (4*vectors*(cache.HeadDim+metalSegment+2) + 15) &^ 15,
	}, gpu.Read(o.Q), gpu.ReadBytes(cache.K, 0, cache.K.Size), gpu.ReadBytes(cache.V, 0, cache.V.Size), spans, gpu.Read(o.Sinks), partial, gpu.Write(o.Out))
	if records > 0 {
		merge.Dispatch(c, p, gpu.Grid{
			Groups:  metal.Size{X: vectors, Y: cache.KVHeads, Z: blocks},
			Threads: metal.Size{X: min(256, (cache.HeadDim+31)&^31), Y: 1, Z: 1},
		}, spans, gpu.Read(o.Sinks), partial.ToRead(), gpu.Write(o.Out))
	}
}

// metalTable is an AttentionSpan of paged_attention.metal for each span, then their page tables; the blocks of vectors in all, and, for
// spans that are split, the blocks of records in all and the most segments of one.
func (o *Attention) metalTable(c *gpu.Context, vectors int) (table []int32, blocks, records, segments int) {
	const fields = 8
	size, pageTokens := fields*len(o.Spans), o.Cache.PageTokens
	for i := range o.Spans {
		size += (o.Spans[i].Pos + o.Spans[i].Rows + pageTokens - 1) / pageTokens
	}
	table, at := c.Table(size), fields*len(o.Spans)
	for i := range o.Spans {
		s := &o.Spans[i]
		own := (s.Rows*o.group() + vectors - 1) / vectors
		first := o.seenFrom(s.Pos) / metalSegment
		n := (s.Pos+s.Rows-1)/metalSegment + 1 - first
		if o.SinkTokens > 0 && first > 0 {
			n++ // the sinks' segment
		}
		if n == 1 || own*o.Cache.KVHeads >= metalFull {
			n = 0
		}
		copy(table[fields*i:], []int32{int32(s.Row), int32(s.Rows), int32(s.Pos), int32(at - fields*len(o.Spans)),
			int32(blocks), int32(n), int32(first), int32(records)})
		at += copy(table[at:], s.Pages[:(s.Pos+s.Rows+pageTokens-1)/pageTokens])
		blocks += own
		records += own * n
		segments = max(segments, n)
	}
	return table, blocks, records, segments
}

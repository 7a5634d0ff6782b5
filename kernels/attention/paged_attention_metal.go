package attention

import (
	_ "embed"
	"fmt"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/msl"
)

//go:embed paged_attention.metal
var attentionText string

//go:embed prefill_attention.metal
var prefillText string

var (
	attentionSource = &gpu.Source{Name: "attention/paged_attention.metal", Text: attentionText}
	prefillSource   = &gpu.Source{Name: "attention/prefill_attention.metal", Text: prefillText}
	attendKernels   variants[attentionVariant, attentionParams]
	prefillKernels  variants[attentionVariant, attentionParams]
	mergeKernels    variants[attentionVariant, attentionParams]
)

// attentionVariant determines the function constants of a kernel.
type attentionVariant struct {
	k, v             Format
	vectors, headDim int
	valueDim         int
	simdgroups       int  // of a threadgroup of paged_attention.metal
	start            bool // the first positions are float16
	capped           bool // scores have a cap
}

// attentionParams is AttentionParams of common/attention.h. Strides are in elements.
type attentionParams struct {
	KVHeads, Group, PageTokens uint32
	QStride, OutStride         uint32
	Window, SinkTokens         uint32
	Following                  uint32
	StartTokens, StartPages    uint32
	HasSinks, Spans            uint32
	Scale, Cap                 float32
}

// paged_attention.metal repeats the numbers of vectors and positions.
const (
	metalVectors = 8   // most vectors of a block
	metalSegment = 256 // positions of a record
	metalChunk   = 32  // positions whose weights a simdgroup scales at a time
	metalHeadDim = 576 // largest head dimension
	// metalFull is the number of threadgroups that fill a GPU. A span with fewer blocks is split
	// into segments.
	metalFull = 256
	metalFew  = 128 // threadgroups that leave room for eight simdgroups in each
)

// prefill_attention.metal repeats the numbers of vectors and positions. Each of its threadgroups
// fills a core of a GPU.
const (
	metalTileVectors = 32
	metalTileSegment = 2048
	metalTileDim     = 256 // largest head dimension; paged_attention.metal computes larger heads
	metalTileFull    = 32

	metalTileSimdgroups = 4
)

// Metal implements gpu.Op. Prefill rows run on matrix units, all other rows on vectors.
func (o *Attention) Metal(c *gpu.Context) {
	cache := o.Cache
	if cache.HeadDim > metalHeadDim {
		panic(fmt.Sprintf("attention: heads of %d dimensions on Metal, expected at most %d: run "+
			"the model on the CPU", cache.HeadDim, metalHeadDim))
	}
	vectors, prompts := 0, false
	for i := range o.Spans {
		prefill, rest := o.parts(i)
		vectors = max(vectors, min(metalVectors, rest.Rows*o.group()))
		prompts = prompts || prefill.Rows > 0
	}
	if prompts {
		o.metalPrefill(c)
	}
	if vectors > 0 {
		o.metalDecode(c, o.metalSpread(c, vectors))
	}
}

// metalSpread returns how many vectors a block has: at most most, and fewer where that leaves cores
// of the GPU idle. It changes no bits. Each block reads the keys and values again, which a cache
// then holds.
func (o *Attention) metalSpread(c *gpu.Context, most int) int {
	vectors, n := most, o.metalThreadgroups(most)
	for vectors > 1 && o.metalThreadgroups((vectors+1)/2) <= metalFew {
		vectors = (vectors + 1) / 2
	}
	return min(most, c.Choose(decodeVectors, o.Cache.shape(n, most), vectors))
}

// metalThreadgroups returns how many threadgroups metalDecode takes with blocks of a number of
// vectors.
func (o *Attention) metalThreadgroups(vectors int) int {
	n := 0
	for i := range o.Spans {
		_, s := o.parts(i)
		if s.Rows == 0 {
			continue
		}
		blocks, segments := o.metalBlocks(&s, metalForm{vectors: vectors, segment: metalSegment,
			full: metalFull})
		n += blocks * max(1, segments) * o.Cache.KVHeads
	}
	return n
}

// parts splits span i into the rows for the matrix kernel and all other rows. Either may be empty.
func (o *Attention) parts(i int) (prefill, rest kernels.Span) {
	if o.Cache.HeadDim > metalTileDim || o.Cache.latent() {
		return kernels.Span{}, o.Spans[i]
	}
	return o.Spans[i].Split(o.Spans[i].Prefill)
}

func (o *Attention) metalParams() attentionParams {
	p := attentionParams{
		KVHeads: uint32(o.Cache.KVHeads), Group: uint32(o.group()),
		PageTokens: uint32(o.Cache.PageTokens),
		QStride:    uint32(o.Q.Stride), OutStride: uint32(o.Out.Stride), Window: uint32(o.Window),
		SinkTokens: uint32(o.SinkTokens), Following: uint32(o.Following),
		StartTokens: uint32(o.Cache.Start.Tokens), StartPages: uint32(o.Cache.Start.Pages),
		Scale: o.Scale, Cap: o.Cap,
	}
	if !o.Sinks.IsNone() {
		p.HasSinks = 1
	}
	return p
}

// metalDecode dispatches paged_attention.metal. A threadgroup computes a block of vectors of a KV
// head, or one segment of it if the span has few blocks.
func (o *Attention) metalDecode(c *gpu.Context, vectors int) {
	t := o.metalTable(c, metalForm{vectors: vectors, segment: metalSegment, full: metalFull,
		split: decodeSplit})
	sg := o.metalSimdgroups(c, max(1, t.segments)*o.Cache.KVHeads*t.blocks, vectors)
	attend := o.metalKernel(&attendKernels, attentionSource, "attend", vectors, sg)
	o.dispatch(c, attend, t, vectors, sg, o.metalBytes(vectors, sg))
}

// metalBytes returns the threadgroup memory of paged_attention.metal.
func (o *Attention) metalBytes(vectors, simdgroups int) int {
	floats := o.Cache.HeadDim + metalSegment + simdgroups*metalChunk + 2 // per vector
	if o.Cache.KFormat.quantized() {
		floats += o.Cache.HeadDim / o.Cache.KFormat.group()
	}
	return (4*vectors*floats + 15) &^ 15
}

// metalSimdgroups returns how many simdgroups each of n threadgroups has. It changes no bits. Few
// threadgroups leave cores idle, so each has more simdgroups and ends sooner.
func (o *Attention) metalSimdgroups(c *gpu.Context, n, vectors int) int {
	untuned := 4
	fits := o.metalBytes(vectors, 8) <= msl.MaxThreadgroupMemoryBytes
	if n <= metalFew && fits {
		untuned = 8
	}
	sg := c.Choose(decodeSimdgroups, o.Cache.shape(n, vectors), untuned)
	if sg == 8 && !fits {
		return 4
	}
	return sg
}

// metalPrefill dispatches prefill_attention.metal in the same way.
func (o *Attention) metalPrefill(c *gpu.Context) {
	t := o.metalTable(c, metalForm{prefill: true, vectors: metalTileVectors,
		segment: metalTileSegment, full: metalTileFull, split: prefillSplit})
	attend := o.metalKernel(&prefillKernels, prefillSource, "attend_prefill", metalTileVectors,
		metalTileSimdgroups)
	o.dispatch(c, attend, t, metalTileVectors, metalTileSimdgroups, 0)
}

// metalKernel returns the kernel of one name for the formats of o. It makes the kernel on first
// use.
func (o *Attention) metalKernel(kept *variants[attentionVariant, attentionParams],
	source *gpu.Source, name string, vectors, simdgroups int) *gpu.Kernel[attentionParams] {
	key := attentionVariant{o.Cache.KFormat, o.Cache.VFormat, vectors, o.Cache.HeadDim,
		o.Cache.valueDim(), simdgroups, o.Cache.Start.Tokens > 0, o.Cap > 0}
	k := kept.find(key)
	if k == nil {
		hasCap := uint32(0)
		if key.capped {
			hasCap = 1
		}
		constants := append(key.k.constants("k"), key.v.constants("v")...)
		constants = append(constants,
			metal.ConstantValue{Name: "head_dim", Value: uint32(key.headDim)},
			metal.ConstantValue{Name: "has_start", Value: min(1, uint32(o.Cache.Start.Tokens))},
			metal.ConstantValue{Name: "has_cap", Value: hasCap})
		if source == attentionSource {
			constants = append(constants,
				metal.ConstantValue{Name: "vectors", Value: uint32(vectors)},
				metal.ConstantValue{Name: "value_dim", Value: uint32(key.valueDim)},
				metal.ConstantValue{Name: "simdgroups", Value: uint32(simdgroups)})
		}
		k = kept.add(key, gpu.NewKernel[attentionParams](source, name, constants...))
	}
	return k
}

// dispatch dispatches attend, and then attend_merge if there are split spans.
func (o *Attention) dispatch(c *gpu.Context, attend *gpu.Kernel[attentionParams], t attentionTable,
	vectors, simdgroups, threadgroupBytes int) {
	cache, p, spans := o.Cache, o.metalParams(), gpu.Ints(t.ints)
	p.Spans = uint32(t.spans)
	partial := c.Scratch(max(1, t.records*cache.KVHeads*vectors*(cache.valueDim()+2)) * 4)
	values := gpu.Read(kernels.Tensor{})
	if !cache.latent() {
		values = gpu.ReadBytes(cache.V, 0, cache.V.Size)
	}
	attend.Dispatch(c, p, gpu.Grid{
		Groups:           metal.Size{X: max(1, t.segments), Y: cache.KVHeads, Z: t.blocks},
		Threads:          metal.Size{X: 32 * simdgroups, Y: 1, Z: 1},
		ThreadgroupBytes: threadgroupBytes,
	}, gpu.Read(o.Q), gpu.ReadBytes(cache.K, 0, cache.K.Size), values, spans, gpu.Read(o.Sinks),
		partial, gpu.Write(o.Out))
	if t.records > 0 {
		o.metalKernel(&mergeKernels, attentionSource, "attend_merge", vectors,
			metalTileSimdgroups).Dispatch(c, p,
			gpu.Grid{
				Groups:  metal.Size{X: vectors, Y: cache.KVHeads, Z: t.blocks},
				Threads: metal.Size{X: min(256, (cache.valueDim()+31)&^31), Y: 1, Z: 1},
			}, spans, gpu.Read(o.Sinks), partial.ToRead(), gpu.Write(o.Out))
	}
}

// metalForm describes how one of the two kernels divides its work.
type metalForm struct {
	prefill bool        // computes the prefill rows rather than all others
	vectors int         // vectors per block
	segment int         // positions per record
	full    int         // threadgroups that fill a GPU, which have all segments of their vectors
	split   *gpu.Choice // of full
}

// attentionTable holds an AttentionSpan of common/attention.h for each span with rows of a form,
// followed by their page tables.
type attentionTable struct {
	ints          []int32
	spans, blocks int // number of spans, and of blocks of vectors in all spans
	// records is the number of blocks times the number of segments, summed over all split spans.
	// segments is the largest number of segments of one split span.
	records, segments int
}

func (o *Attention) metalTable(c *gpu.Context, f metalForm) attentionTable {
	const fields = 8
	part := func(i int) kernels.Span {
		prefill, rest := o.parts(i)
		if f.prefill {
			return prefill
		}
		return rest
	}
	var t attentionTable
	size, pageTokens := 0, o.Cache.PageTokens
	mostRows, longest := 0, 0 // of a span
	for i := range o.Spans {
		if s := part(i); s.Rows > 0 {
			t.spans++
			size += fields + (s.Pos+s.Rows+pageTokens-1)/pageTokens
			mostRows, longest = max(mostRows, s.Rows), max(longest, s.Pos+s.Rows)
		}
	}
	f.full = c.Choose(f.split, o.Cache.shape(mostRows*o.group(), longest), f.full)
	t.ints = c.Table(size)
	at, entry := fields*t.spans, t.ints
	for i := range o.Spans {
		s := part(i)
		if s.Rows == 0 {
			continue
		}
		own, n := o.metalBlocks(&s, f)
		first := o.seenFrom(s.Pos) / f.segment
		copy(entry, []int32{int32(s.Row), int32(s.Rows), int32(s.Pos), int32(at - fields*t.spans),
			int32(t.blocks), int32(n), int32(first), int32(t.records)})
		entry = entry[fields:]
		at += copy(t.ints[at:], s.Pages[:(s.Pos+s.Rows+pageTokens-1)/pageTokens])
		t.blocks += own
		t.records += own * n
		t.segments = max(t.segments, n)
	}
	return t
}

// metalBlocks returns how many blocks of vectors a span has, and the number of segments that each
// is split into, or 0.
func (o *Attention) metalBlocks(s *kernels.Span, f metalForm) (blocks, segments int) {
	blocks = (s.Rows*o.group() + f.vectors - 1) / f.vectors
	first := o.seenFrom(s.Pos) / f.segment
	segments = (o.seenTo(s, s.Pos+s.Rows-1)-1)/f.segment + 1 - first
	if o.SinkTokens > 0 && first > 0 {
		segments++ // the segment of the sink tokens
	}
	if segments == 1 || blocks*o.Cache.KVHeads >= f.full {
		return blocks, 0
	}
	return blocks, segments
}

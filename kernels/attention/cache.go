package attention

// Pages of keys and values: their layout, their bounds checks, and element access in plain Go. The
// Go code specifies what the C kernels read and write.

import (
	"encoding/binary"
	"fmt"
	"math"

	"headroom/kernels"
)

// Cache holds the KV pages of one layer. A page has room for PageTokens positions of all KV heads.
// The cache does not know which sequence owns a page: only the page tables of the spans say that.
//
// A page of plain K is [KVHeads, HeadDim, PageTokens], so that a vector holds 16 neighbouring
// positions. A page of plain V is [KVHeads, PageTokens, HeadDim], so that a vector holds 16
// dimensions. Quantized pages consist of strips of 16 positions (quantized.go) with the same axes
// along the vector. Code outside this package must not depend on the layout.
//
// With a ValueDim the values are the first ValueDim elements of the keys (multi-head latent
// attention, DeepSeek-AI 2024, "DeepSeek-V2"). Then there is no V.
type Cache struct {
	K, V             *kernels.Buffer
	KFormat, VFormat Format // of the positions from Start.Tokens on
	Start            Start
	KVHeads          int
	HeadDim          int // of keys: a multiple of 16 and of the group sizes of both formats
	ValueDim         int // a multiple of 16 below HeadDim; 0: values are stored, with HeadDim
	PageTokens       int // a multiple of 16
}

// Start describes the first positions of every sequence, which stay float16 in a quantized cache.
// These positions have separate pages, the first ones of the cache. The index of an entry in a page
// table says which kind of page it names. The zero value has no such positions.
type Start struct {
	// Tokens is the number of positions. It is a multiple of StartStep, because a segment of
	// attention has one format, and of the page size.
	Tokens int
	Pages  int // pages [0, Pages) hold these positions
}

// StartStep divides every Start.Tokens.
const StartStep = segmentTokens

// NewCache allocates a cache of pages zeroed pages on d, including those of start. It panics unless
// Format.Check accepts headDim for k and v.
func NewCache(d kernels.Device, k, v Format, kvHeads, headDim, pageTokens, pages int,
	start Start) *Cache {
	return newCache(d, pages, Cache{KFormat: k, VFormat: v, Start: start, KVHeads: kvHeads,
		HeadDim: headDim, PageTokens: pageTokens})
}

// NewLatentCache is NewCache for keys of one head whose first valueDim elements are the values.
func NewLatentCache(d kernels.Device, f Format, headDim, valueDim, pageTokens, pages int,
	start Start) *Cache {
	return newCache(d, pages, Cache{KFormat: f, Start: start, KVHeads: 1, HeadDim: headDim,
		ValueDim: valueDim, PageTokens: pageTokens})
}

func newCache(d kernels.Device, pages int, c Cache) *Cache {
	for _, f := range []Format{c.KFormat, c.VFormat} {
		if err := f.Check(c.HeadDim); err != nil {
			panic("attention: NewCache: " + err.Error())
		}
	}
	bytes := func(offset, pageBytes int) int { return offset + pages*pageBytes }
	c.K = d.NewBuffer(bytes(c.KPages(false)))
	if !c.latent() {
		c.V = d.NewBuffer(bytes(c.VPages(false)))
	}
	return &c
}

// latent reports whether the values are part of the keys.
func (c *Cache) latent() bool { return c.ValueDim > 0 }

// valueDim returns the dimension of the values.
func (c *Cache) valueDim() int {
	if c.latent() {
		return c.ValueDim
	}
	return c.HeadDim
}

// AtStart returns the format of the positions in a Start: float16 if f is quantized, otherwise f.
func (f Format) AtStart() Format {
	if f.quantized() {
		return FloatFormat(kernels.F16)
	}
	return f
}

// KPages returns the size of a page of K, and an offset such that page i begins at offset +
// i*pageBytes of K. Both are in bytes. start selects the pages of the Start or all other pages.
func (c *Cache) KPages(start bool) (offset, pageBytes int) { return c.pagesOf(c.KFormat, start) }

// VPages is KPages for V. Both are 0 if there is no V.
func (c *Cache) VPages(start bool) (offset, pageBytes int) {
	if c.latent() {
		return 0, 0
	}
	return c.pagesOf(c.VFormat, start)
}

func (c *Cache) pagesOf(f Format, start bool) (offset, pageBytes int) {
	rows := c.KVHeads * c.PageTokens
	if start {
		return 0, rows * f.AtStart().RowBytes(c.HeadDim)
	}
	pageBytes = rows * f.RowBytes(c.HeadDim)
	return c.Start.Pages * (rows*f.AtStart().RowBytes(c.HeadDim) - pageBytes), pageBytes
}

// KPageBytes returns the size of one page of K after the Start.
func (c *Cache) KPageBytes() int { return c.KVHeads * c.PageTokens * c.KFormat.RowBytes(c.HeadDim) }

// VPageBytes returns the size of one page of V after the Start, 0 if there is no V.
func (c *Cache) VPageBytes() int {
	_, bytes := c.VPages(false)
	return bytes
}

// bytesOf returns the size of K and V of a sequence's first positions, for all heads. tokens is the
// number of these positions.
func (c *Cache) bytesOf(tokens int) int64 {
	early := min(tokens, c.Start.Tokens)
	of := func(k, v Format) int64 {
		bytes := k.RowBytes(c.HeadDim)
		if !c.latent() {
			bytes += v.RowBytes(c.HeadDim)
		}
		return int64(c.KVHeads) * int64(bytes)
	}
	return int64(early)*of(c.KFormat.AtStart(), c.VFormat.AtStart()) +
		int64(tokens-early)*of(c.KFormat, c.VFormat)
}

// Pages returns the number of pages, including those of the Start.
func (c *Cache) Pages() int {
	k, kBytes := c.KPages(false)
	pages := (c.K.Size - k) / kBytes
	if v, vBytes := c.VPages(false); vBytes > 0 {
		pages = min(pages, (c.V.Size-v)/vBytes)
	}
	return pages
}

// Clear zeroes the positions [from, to) of a page, which is the content of one page of K if keys is
// true, else of V. start tells which kind of page it is.
func (c *Cache) Clear(page []byte, keys, start bool, from, to int) {
	if from <= 0 && to >= c.PageTokens {
		clear(page)
		return
	}
	f := c.VFormat
	if keys {
		f = c.KFormat
	}
	if start {
		f = f.AtStart()
	}
	r, alone := rows{c, page, f, keys}, []int32{0}
	for head := range c.KVHeads {
		for pos := from; pos < to; pos++ {
			r.clear(alone, head, pos)
		}
	}
}

func (c *Cache) check() error {
	if c == nil || c.K == nil || (c.V == nil) != c.latent() {
		return fmt.Errorf("cache: got none, expected one from NewCache")
	}
	if c.KVHeads < 1 || c.HeadDim < 16 || c.HeadDim%16 != 0 || c.PageTokens < 16 ||
		c.PageTokens%16 != 0 {
		return fmt.Errorf(
			"cache: got %d heads of %d dimensions in pages of %d tokens, expected at least one "+
				"head, and multiples of 16 for dimensions and tokens",
			c.KVHeads, c.HeadDim, c.PageTokens)
	}
	if c.latent() && (c.KVHeads != 1 || c.ValueDim%16 != 0 || c.ValueDim >= c.HeadDim) {
		return fmt.Errorf("cache: got values that are the first %d of %d elements of %d heads, "+
			"expected one head, and a multiple of 16 below its dimension", c.ValueDim, c.HeadDim,
			c.KVHeads)
	}
	if s := c.Start; s.Tokens < 0 || s.Tokens%segmentTokens != 0 || s.Tokens%c.PageTokens != 0 ||
		s.Pages < 0 || s.Tokens == 0 && s.Pages > 0 {
		return fmt.Errorf(
			"cache: got a start of %d tokens in %d pages of %d tokens, expected a multiple of %d "+
				"and of the page size, or none",
			s.Tokens, s.Pages, c.PageTokens, segmentTokens)
	}
	if err := c.KFormat.Check(c.HeadDim); err != nil {
		return err
	}
	return c.VFormat.Check(c.HeadDim)
}

// checkPages returns an error unless the page table of every span has valid pages for positions
// first(span) up to the end of the span, and for positions [0, sinks) of its sequence. All
// other entries, such as pages that a sliding window has freed, may have any value.
func (c *Cache) checkPages(spans []kernels.Span, first func(*kernels.Span) int, sinks int) error {
	pages := c.Pages()
	for i := range spans {
		s := &spans[i]
		end := (s.Pos + s.Rows + c.PageTokens - 1) / c.PageTokens
		if len(s.Pages) < end {
			return fmt.Errorf(
				"span %d: got a page table of %d pages of %d tokens, expected %d pages for "+
					"positions up to %d",
				i, len(s.Pages), c.PageTokens, end, s.Pos+s.Rows-1)
		}
		from := min(first(s)/c.PageTokens, end)
		for _, part := range [2][2]int{{0, min((sinks+c.PageTokens-1)/c.PageTokens, from)},
			{from, end}} {
			for j := part[0]; j < part[1]; j++ {
				low, high := c.Start.Pages, pages
				if j*c.PageTokens < c.Start.Tokens {
					low, high = 0, c.Start.Pages
				}
				if p := int(s.Pages[j]); p < low || p >= high {
					return fmt.Errorf(
						"span %d: got page %d in entry %d of its page table, expected one of "+
							"[%d, %d)",
						i, p, j, low, high)
				}
			}
		}
	}
	return nil
}

// rows reads and writes K or V in plain Go, one position of one head at a time. kv_format.h does
// the same in C. One value of this type serves either the positions of a Start or all others.
type rows struct {
	c     *Cache
	bytes []byte // from page 0 on
	f     Format
	keys  bool
}

// keys returns the rows of K that hold position pos.
func (c *Cache) keys(pos int) rows { return c.rowsAt(pos, c.K, c.KFormat, true) }

// values returns the rows of V, or of K if they begin with the values, that hold position pos.
func (c *Cache) values(pos int) rows {
	if c.latent() {
		return c.keys(pos)
	}
	return c.rowsAt(pos, c.V, c.VFormat, false)
}

func (c *Cache) rowsAt(pos int, b *kernels.Buffer, f Format, keys bool) rows {
	start := pos < c.Start.Tokens
	offset, _ := c.pagesOf(f, start)
	if start {
		f = f.AtStart()
	}
	return rows{c, b.Bytes[offset:], f, keys}
}

// read decodes the HeadDim elements of a position into dst.
func (r rows) read(dst []float32, pages []int32, head, pos int) {
	if r.f.quantized() {
		s := r.strip(pages, head, pos)
		s.read(dst)
		return
	}
	base, step := r.elements(pages, head, pos)
	for i := range dst[:r.c.HeadDim] {
		dst[i] = r.load(base + i*step)
	}
}

// write rounds src to the format and stores it.
func (r rows) write(src []float32, pages []int32, head, pos int) {
	if r.f.quantized() {
		s := r.strip(pages, head, pos)
		s.write(src)
		return
	}
	base, step := r.elements(pages, head, pos)
	for i, x := range src[:r.c.HeadDim] {
		r.store(base+i*step, x)
	}
}

// clear zeroes the bytes of a position.
func (r rows) clear(pages []int32, head, pos int) {
	if r.f.quantized() {
		s := r.strip(pages, head, pos)
		s.clear()
		return
	}
	base, step := r.elements(pages, head, pos)
	size := r.f.DType.Size()
	for i := range r.c.HeadDim {
		clear(r.bytes[(base+i*step)*size:][:size])
	}
}

// elements returns the index of the element of a plain page that holds a position's first
// dimension, and the distance between consecutive dimensions.
func (r rows) elements(pages []int32, head, pos int) (base, step int) {
	d, p := r.c.HeadDim, r.c.PageTokens
	base = (int(pages[pos/p])*r.c.KVHeads + head) * d * p
	if r.keys {
		return base + pos%p, p
	}
	return base + pos%p*d, 1
}

// strip returns the strip and lane of a position in a quantized page.
func (r rows) strip(pages []int32, head, pos int) strip {
	p, row := r.c.PageTokens, r.f.RowBytes(r.c.HeadDim)
	at := ((int(pages[pos/p])*r.c.KVHeads+head)*p + pos%p/stripTokens*stripTokens) * row
	return strip{bytes: r.bytes[at : at+stripTokens*row], f: r.f, keys: r.keys,
		headDim: r.c.HeadDim, lane: pos % stripTokens}
}

func (r rows) load(i int) float32 {
	switch r.f.DType {
	case kernels.F16:
		return fromFloat16(binary.LittleEndian.Uint16(r.bytes[2*i:]))
	case kernels.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(r.bytes[2*i:])) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(r.bytes[4*i:]))
}

func (r rows) store(i int, x float32) {
	switch r.f.DType {
	case kernels.F16:
		binary.LittleEndian.PutUint16(r.bytes[2*i:], toFloat16(x))
	case kernels.BF16:
		binary.LittleEndian.PutUint16(r.bytes[2*i:], toBFloat16(x))
	default:
		binary.LittleEndian.PutUint32(r.bytes[4*i:], math.Float32bits(x))
	}
}

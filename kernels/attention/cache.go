package attention

// Pages of keys and values: their layouts, their bounds checks, and element access in plain Go, which is the specification of
// what the C kernels read and write.

import (
	"encoding/binary"
	"fmt"
	"math"

	"headroom/kernels"
)

// Cache holds the pages of one layer. A page has room for PageTokens positions of all KV heads; which sequence owns it, and
// where in that sequence it lies, only the page tables of the spans say.
//
// A page of plain K is [KVHeads, HeadDim, PageTokens], so that 16 neighbouring positions fill a vector; a page of plain V is
// [KVHeads, PageTokens, HeadDim], so that 16 dimensions do. Quantized pages are strips of 16 positions (quantized.go), with the
// same axes in the lanes. Nothing outside this package may rely on it.
type Cache struct {
	K, V             *kernels.Buffer
	KFormat, VFormat Format
	KVHeads          int
	HeadDim          int // a multiple of 16, and of the formats' groups
	PageTokens       int // a multiple of 16
}

// NewCache allocates a cache of pages zeroed pages on d. It panics if heads of headDim cannot be stored so: ask Format.Check.
func NewCache(d kernels.Device, k, v Format, kvHeads, headDim, pageTokens, pages int) *Cache {
	c := &Cache{KFormat: k, VFormat: v, KVHeads: kvHeads, HeadDim: headDim, PageTokens: pageTokens}
	for _, f := range []Format{k, v} {
		if err := f.Check(headDim); err != nil {
			panic("attention: NewCache: " + err.Error())
		}
	}
	c.K = d.NewBuffer(pages * c.KPageBytes())
	c.V = d.NewBuffer(pages * c.VPageBytes())
	return c
}

// KPageBytes is the size of one page of K.
func (c *Cache) KPageBytes() int { return c.KVHeads * c.PageTokens * c.KFormat.RowBytes(c.HeadDim) }

// VPageBytes is the size of one page of V.
func (c *Cache) VPageBytes() int { return c.KVHeads * c.PageTokens * c.VFormat.RowBytes(c.HeadDim) }

// TokenBytes is what one position takes, K and V of all heads.
func (c *Cache) TokenBytes() int { return (c.KPageBytes() + c.VPageBytes()) / c.PageTokens }

// Pages is the number of pages.
func (c *Cache) Pages() int { return min(c.K.Size/c.KPageBytes(), c.V.Size/c.VPageBytes()) }

func (c *Cache) check() error {
	if c == nil || c.K == nil || c.V == nil {
		return fmt.Errorf("cache: got none, expected one from NewCache")
	}
	if c.KVHeads < 1 || c.HeadDim < 16 || c.HeadDim%16 != 0 || c.PageTokens < 16 || c.PageTokens%16 != 0 {
		return fmt.Errorf("cache: got %d heads of %d dimensions in pages of %d tokens, expected at least one head, and multiples of 16 for the others",
			c.KVHeads, c.HeadDim, c.PageTokens)
	}
	if err := c.KFormat.Check(c.HeadDim); err != nil {
		return err
	}
	return c.VFormat.Check(c.HeadDim)
}

// checkPages returns an error unless the page table of every span covers positions [first(span), its last + 1), and the first
// sinks positions before, with pages that exist. Other entries, such as pages that a sliding window has given back, may hold anything.
func (c *Cache) checkPages(spans []kernels.Span, first func(*kernels.Span) int, sinks int) error {
	pages := c.Pages()
	for i := range spans {
		s := &spans[i]
		end := (s.Pos + s.Rows + c.PageTokens - 1) / c.PageTokens
		if len(s.Pages) < end {
			return fmt.Errorf("span %d: its page table has %d pages of %d tokens, expected %d for positions up to %d",
				i, len(s.Pages), c.PageTokens, end, s.Pos+s.Rows-1)
		}
		from := min(first(s)/c.PageTokens, end)
		for _, part := range [2][2]int{{0, min((sinks+c.PageTokens-1)/c.PageTokens, from)}, {from, end}} {
			for j := part[0]; j < part[1]; j++ {
				if p := s.Pages[j]; p < 0 || int(p) >= pages {
					return fmt.Errorf("span %d: entry %d of its page table is page %d, expected one of the cache's %d", i, j, p, pages)
				}
			}
		}
	}
	return nil
}

// rows is K or V in plain Go, a position of a head at a time. In C the formats are in kv_format.h.
type rows struct {
	c     *Cache
	bytes []byte
	f     Format
	keys  bool
}

func (c *Cache) keys() rows   { return rows{c, c.K.Bytes, c.KFormat, true} }
func (c *Cache) values() rows { return rows{c, c.V.Bytes, c.VFormat, false} }

// read writes the HeadDim elements of a position to dst.
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

// write rounds src to the format of the cache.
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

// elements is the element of a plain page that holds a position's first dimension, and how far apart the dimensions lie.
func (r rows) elements(pages []int32, head, pos int) (base, step int) {
	d, p := r.c.HeadDim, r.c.PageTokens
	base = (int(pages[pos/p])*r.c.KVHeads + head) * d * p
	if r.keys {
		return base + pos%p, p
	}
	return base + pos%p*d, 1
}

// strip is the strip and lane of a position in a quantized page.
func (r rows) strip(pages []int32, head, pos int) strip {
	p, row := r.c.PageTokens, r.f.RowBytes(r.c.HeadDim)
	at := ((int(pages[pos/p])*r.c.KVHeads+head)*p + pos%p/stripTokens*stripTokens) * row
	return strip{bytes: r.bytes[at : at+stripTokens*row], f: r.f, keys: r.keys, headDim: r.c.HeadDim, lane: pos % stripTokens}
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

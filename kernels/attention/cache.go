package attention

import (
	"encoding/binary"
	"fmt"
	"math"

	"headroom/kernels"
)

// Cache holds the pages of one layer. A page has room for PageTokens positions of all KV heads; which sequence owns it, and
// where in that sequence it lies, only the page tables of the spans say.
//
// A page of K is [KVHeads, HeadDim, PageTokens], so that 16 neighbouring positions fill a vector; a page of V is
// [KVHeads, PageTokens, HeadDim], so that 16 dimensions do. Nothing outside this package may rely on it.
type Cache struct {
	K, V       *kernels.Buffer
	DType      kernels.DType // F32, F16 or BF16
	KVHeads    int
	HeadDim    int // a multiple of 16
	PageTokens int // a multiple of 16
}

// NewCache allocates a cache of pages zeroed pages on d.
func NewCache(d kernels.Device, dtype kernels.DType, kvHeads, headDim, pageTokens, pages int) *Cache {
	c := &Cache{DType: dtype, KVHeads: kvHeads, HeadDim: headDim, PageTokens: pageTokens}
	c.K = d.NewBuffer(pages * c.PageBytes())
	c.V = d.NewBuffer(pages * c.PageBytes())
	return c
}

// PageBytes is the size of one page of K; a page of V has the same.
func (c *Cache) PageBytes() int { return c.KVHeads * c.HeadDim * c.PageTokens * c.DType.Size() }

// Pages is the number of pages.
func (c *Cache) Pages() int { return min(c.K.Size, c.V.Size) / c.PageBytes() }

func (c *Cache) check() error {
	if c == nil || c.K == nil || c.V == nil {
		return fmt.Errorf("cache: got none, expected one from NewCache")
	}
	switch c.DType {
	case kernels.F32, kernels.F16, kernels.BF16:
	default:
		return fmt.Errorf("cache: got %s, expected float32, float16 or bfloat16", c.DType)
	}
	if c.KVHeads < 1 || c.HeadDim < 16 || c.HeadDim%16 != 0 || c.PageTokens < 16 || c.PageTokens%16 != 0 {
		return fmt.Errorf("cache: got %d heads of %d dimensions in pages of %d tokens, expected at least one head, and multiples of 16 for the others",
			c.KVHeads, c.HeadDim, c.PageTokens)
	}
	return nil
}

// checkPages returns an error unless the page table of every span covers positions [first(span), its last + 1) with pages
// that exist. Entries before first, such as pages that a sliding window has given back, may hold anything.
func (c *Cache) checkPages(spans []kernels.Span, first func(*kernels.Span) int) error {
	pages := c.Pages()
	for i := range spans {
		s := &spans[i]
		end := (s.Pos + s.Rows + c.PageTokens - 1) / c.PageTokens
		if len(s.Pages) < end {
			return fmt.Errorf("span %d: its page table has %d pages of %d tokens, expected %d for positions up to %d",
				i, len(s.Pages), c.PageTokens, end, s.Pos+s.Rows-1)
		}
		for j := first(s) / c.PageTokens; j < end; j++ {
			if p := s.Pages[j]; p < 0 || int(p) >= pages {
				return fmt.Errorf("span %d: entry %d of its page table is page %d, expected one of the cache's %d", i, j, p, pages)
			}
		}
	}
	return nil
}

// kIndex and vIndex are the element that holds one dimension of one position.
func (c *Cache) kIndex(pages []int32, head, pos, dim int) int {
	page := int(pages[pos/c.PageTokens])
	return ((page*c.KVHeads+head)*c.HeadDim+dim)*c.PageTokens + pos%c.PageTokens
}

func (c *Cache) vIndex(pages []int32, head, pos, dim int) int {
	page := int(pages[pos/c.PageTokens])
	return ((page*c.KVHeads+head)*c.PageTokens+pos%c.PageTokens)*c.HeadDim + dim
}

// load and store are the format of an element in plain Go; in C it is in kv_format.h.
func (c *Cache) load(b *kernels.Buffer, i int) float32 {
	switch c.DType {
	case kernels.F16:
		return fromFloat16(binary.LittleEndian.Uint16(b.Bytes[2*i:]))
	case kernels.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b.Bytes[2*i:])) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes[4*i:]))
}

func (c *Cache) store(b *kernels.Buffer, i int, x float32) {
	switch c.DType {
	case kernels.F16:
		binary.LittleEndian.PutUint16(b.Bytes[2*i:], toFloat16(x))
	case kernels.BF16:
		binary.LittleEndian.PutUint16(b.Bytes[2*i:], toBFloat16(x))
	default:
		binary.LittleEndian.PutUint32(b.Bytes[4*i:], math.Float32bits(x))
	}
}

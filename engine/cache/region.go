package cache

// This file gives access to the bytes of pages and slots, for code that copies them, writes them to
// disk and reads them back.

import (
	"bytes"
	"fmt"

	"headroom/kernels"
	"headroom/kernels/attention"
)

// Region is memory that is divided into equal pieces, one for each page or slot.
type Region struct {
	Name   string // such as "layers.3.k"
	Buffer *kernels.Buffer
	// Offset is the position of piece 0 in Buffer, in bytes. If the first pieces have no memory,
	// Offset is the position that piece 0 would have.
	Offset     int
	PieceBytes int

	// clear zeroes positions [from, to) of a page. It is nil in a region of recurrent state.
	clear func(page []byte, from, to int)
	ring  *Ring // of a region of rings; nil otherwise
}

// Piece returns the memory of one page or slot on the host.
func (r *Region) Piece(i int32) []byte {
	from := r.Offset + int(i)*r.PieceBytes
	return r.Buffer.Bytes[from : from+r.PieceBytes : from+r.PieceBytes]
}

// Used returns the memory of one page or slot after so many tokens of its sequence: of a page's own
// positions, or of the whole sequence for a slot. In the result, every position that this sequence
// does not need is zero. Otherwise it would hold what another sequence has left there, or tokens
// that a copied page or ring already had. The result is a copy if anything had to be zeroed.
func (r *Region) Used(i int32, tokens int) []byte {
	piece := r.Piece(i)
	switch {
	case r.clear == nil:
		return piece
	case r.ring != nil:
		return r.usedRing(piece, tokens)
	case tokens >= PageTokens:
		return piece
	}
	piece = bytes.Clone(piece)
	r.clear(piece, tokens, PageTokens)
	return piece
}

func (r *Region) usedRing(piece []byte, tokens int) []byte {
	piece = bytes.Clone(piece)
	used := r.ring.used(tokens)
	pageBytes := len(piece) / r.ring.SlotPages
	for page := range r.ring.SlotPages {
		for _, gap := range gaps(used[page*PageTokens:][:PageTokens]) {
			r.clear(piece[page*pageBytes:][:pageBytes], gap[0], gap[1])
		}
	}
	return piece
}

// gaps returns the ranges of the false values.
func gaps(used []bool) (ranges [][2]int) {
	for from := 0; from < len(used); from++ {
		to := from
		for to < len(used) && !used[to] {
			to++
		}
		if to > from {
			ranges, from = append(ranges, [2]int{from, to}), to
		}
	}
	return ranges
}

// PageRegions returns the regions of all layers that are divided into pages, either for start pages
// or for other pages. Both kinds are numbered as in page tables. A region has memory only for pages
// of its kind.
func PageRegions(layers []Layer, start bool) (regions []Region) {
	for i, l := range layers {
		if l.KV == nil || l.Ring != nil || start && l.KV.Start.Tokens == 0 {
			continue
		}
		name := fmt.Sprintf("layers.%d", i)
		if start {
			name += fmt.Sprintf(".start_%d", l.KV.Start.Tokens)
		}
		k, kBytes := l.KV.KPages(start)
		regions = append(regions, Region{Name: name + keysOf(l.KV), Buffer: l.KV.K, Offset: k,
			PieceBytes: kBytes, clear: clearPage(l.KV, true, start)})
		if v, vBytes := l.KV.VPages(start); l.KV.V != nil {
			regions = append(regions, Region{Name: name + ".v", Buffer: l.KV.V, Offset: v,
				PieceBytes: vBytes, clear: clearPage(l.KV, false, start)})
		}
	}
	return regions
}

// keysOf returns the end of the name of a layer's keys. Keys that begin with the values have
// another name, because they cannot stand for other keys.
func keysOf(c *attention.Cache) string {
	if c.ValueDim > 0 {
		return fmt.Sprintf(".latent_%d", c.ValueDim)
	}
	return ".k"
}

func clearPage(c *attention.Cache, keys, start bool) func(page []byte, from, to int) {
	return func(page []byte, from, to int) { c.Clear(page, keys, start, from, to) }
}

// SlotRegions returns the regions of all layers that are divided into slots.
func SlotRegions(layers []Layer) (regions []Region) {
	for i, l := range layers {
		if r := l.Ring; r != nil {
			// The name contains the window, because a different window gives different keys and
			// values.
			name := fmt.Sprintf("layers.%d.ring_%d_%d", i, r.SinkTokens, r.Window)
			regions = append(regions, Region{Name: name + keysOf(l.KV), Buffer: l.KV.K,
				PieceBytes: r.SlotPages * l.KV.KPageBytes(), ring: r,
				clear: clearPage(l.KV, true, false)})
			if l.KV.V != nil {
				regions = append(regions, Region{Name: name + ".v", Buffer: l.KV.V,
					PieceBytes: r.SlotPages * l.KV.VPageBytes(), ring: r,
					clear: clearPage(l.KV, false, false)})
			}
		}
		if !l.Conv.IsNone() {
			regions = append(regions, rows(fmt.Sprintf("layers.%d.conv", i), l.Conv))
		}
		if !l.State.IsNone() {
			regions = append(regions, rows(fmt.Sprintf("layers.%d.state", i), l.State))
		}
		if !l.Hidden.IsNone() {
			regions = append(regions, rows(fmt.Sprintf("layers.%d.hidden", i), l.Hidden))
		}
	}
	return regions
}

// rows returns the rows of a contiguous tensor as a region.
func rows(name string, t kernels.Tensor) Region {
	return Region{Name: name, Buffer: t.Buffer, Offset: t.Offset,
		PieceBytes: t.Cols * t.DType.Size()}
}

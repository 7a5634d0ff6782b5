package cache

// This file gives access to the bytes of pages and slots, for code that copies them, writes them to
// disk and reads them back.

import (
	"fmt"

	"headroom/kernels"
)

// Region is memory that is divided into equal pieces, one for each page or slot.
type Region struct {
	Name   string // such as "layers.3.k"
	Buffer *kernels.Buffer
	// Offset is the position of piece 0 in Buffer, in bytes. If the first pieces have no memory,
	// Offset is the position that piece 0 would have.
	Offset     int
	PieceBytes int
}

// Piece returns the memory of one page or slot on the host.
func (r *Region) Piece(i int32) []byte {
	from := r.Offset + int(i)*r.PieceBytes
	return r.Buffer.Bytes[from : from+r.PieceBytes : from+r.PieceBytes]
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
		v, vBytes := l.KV.VPages(start)
		regions = append(regions,
			Region{Name: name + ".k", Buffer: l.KV.K, Offset: k, PieceBytes: kBytes},
			Region{Name: name + ".v", Buffer: l.KV.V, Offset: v, PieceBytes: vBytes})
	}
	return regions
}

// SlotRegions returns the regions of all layers that are divided into slots.
func SlotRegions(layers []Layer) (regions []Region) {
	for i, l := range layers {
		if r := l.Ring; r != nil {
			// The name contains the window, because a different window gives different keys and
			// values.
			name := fmt.Sprintf("layers.%d.ring_%d_%d", i, r.SinkTokens, r.Window)
			regions = append(regions,
				Region{Name: name + ".k", Buffer: l.KV.K,
					PieceBytes: r.SlotPages * l.KV.KPageBytes()},
				Region{Name: name + ".v", Buffer: l.KV.V,
					PieceBytes: r.SlotPages * l.KV.VPageBytes()})
		}
		if !l.State.IsNone() {
			regions = append(regions, rows(fmt.Sprintf("layers.%d.conv", i), l.Conv),
				rows(fmt.Sprintf("layers.%d.state", i), l.State))
		}
	}
	return regions
}

// rows returns the rows of a contiguous tensor as a region.
func rows(name string, t kernels.Tensor) Region {
	return Region{Name: name, Buffer: t.Buffer, Offset: t.Offset,
		PieceBytes: t.Cols * t.DType.Size()}
}

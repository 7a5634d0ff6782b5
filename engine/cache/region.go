package cache

// The same memory seen by those who copy it, write it to disk and read it back: they know pages and
// slots, and nothing of what is kept in them.

import (
	"fmt"

	"headroom/kernels"
)

// Region is memory in equal pieces, one a page or one a slot.
type Region struct {
	Name   string // as "layers.3.k"
	Buffer *kernels.Buffer
	// of piece 0 in Buffer, in bytes; in a region that begins with a later piece, of where piece 0
	// would be
	Offset     int
	PieceBytes int
}

// Piece is the host's view of one page or slot.
func (r *Region) Piece(i int32) []byte {
	from := r.Offset + int(i)*r.PieceBytes
	return r.Buffer.Bytes[from : from+r.PieceBytes : from+r.PieceBytes]
}

// PageRegions are what a page consists of, over all layers: one of those for the start, or another.
// Either kind of pages is numbered as page tables do, so a region has memory only for the pages of
// its kind.
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

// SlotRegions are what a slot consists of, over all layers.
func SlotRegions(layers []Layer) (regions []Region) {
	for i, l := range layers {
		if r := l.Ring; r != nil {
			// what rows see is in the name: other windows give other keys and values
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

// rows is a contiguous tensor as a region of its rows.
func rows(name string, t kernels.Tensor) Region {
	return Region{Name: name, Buffer: t.Buffer, Offset: t.Offset,
		PieceBytes: t.Cols * t.DType.Size()}
}

package runner

// Free pages and slots that were written can be returned to the system.

import (
	"slices"

	"headroom/engine/cache"
	"headroom/kernels"
)

// Discards reports whether the device can return the memory of pages and slots to the system.
func (r *Runner) Discards() bool {
	_, ok := r.device.(kernels.Discarder)
	return ok
}

// DiscardPages returns the memory of free pages to the system. What they had is lost.
func (r *Runner) DiscardPages(pages []int32) {
	slices.Sort(pages)
	first, _ := slices.BinarySearch(pages, r.startPages)
	r.discard(r.startRegions, pages[:first])
	r.discard(r.pageRegions, pages[first:])
}

// DiscardSlots does the same for slots of states.
func (r *Runner) DiscardSlots(slots []int32) {
	slices.Sort(slots)
	r.discard(r.slotRegions, slots)
}

// discard returns the memory of pieces, in ascending order. Neighbours are returned together, since
// a piece may be smaller than a page of the system.
func (r *Runner) discard(regions []cache.Region, pieces []int32) {
	device := r.device.(kernels.Discarder)
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n] == pieces[n-1]+1 {
			n++
		}
		for i := range regions {
			g := &regions[i]
			from := g.Offset + int(pieces[0])*g.PieceBytes
			device.Discard(g.Buffer, from, from+n*g.PieceBytes)
		}
		pieces = pieces[n:]
	}
}

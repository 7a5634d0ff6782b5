package runner

// Free pages and slots that were written can be returned to the system.

import (
	"cmp"
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
func (r *Runner) DiscardPages(pages []int32) error {
	slices.Sort(pages)
	first, _ := slices.BinarySearch(pages, r.startPages)
	return cmp.Or(r.discard(r.startRegions, pages[:first]), r.discard(r.pageRegions, pages[first:]))
}

// DiscardSlots does the same for slots of states.
func (r *Runner) DiscardSlots(slots []int32) error {
	slices.Sort(slots)
	return r.discard(r.slotRegions, slots)
}

// discard returns the memory of pieces, in ascending order. Neighbours are returned together, since
// a piece may be smaller than a page of the system. It returns the first error, after all of them.
func (r *Runner) discard(regions []cache.Region, pieces []int32) (err error) {
	device := r.device.(kernels.Discarder)
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n] == pieces[n-1]+1 {
			n++
		}
		for i := range regions {
			g := &regions[i]
			from := g.Offset + int(pieces[0])*g.PieceBytes
			err = cmp.Or(err, device.Discard(g.Buffer, from, from+n*g.PieceBytes))
		}
		pieces = pieces[n:]
	}
	return err
}

package memory

// The figures about memory that Headroom shows and decides by, one function each:
//
//	FreeBytes      what is free: the segment Free of the bar
//	HeadroomBytes  what is available for a model, now or after others were unloaded
//	Fits           whether a model that needs so much fits into that
//
// What a model needs is a figure of its plan: engine.Description.NeedAt.

import "headroom/engine/problem"

// The reserve is memory that Headroom never offers to a model: an eighth of the total, so that the
// system and the apps that the user opens next do not swap. It is at least half a GiB, which a
// desktop alone uses, and at most 8 GiB: more would only keep large models off large machines.
// (oMLX's middle tier reserves 8 GB, or 4 GB on machines with less than 16 GB of RAM.)
const (
	reserveShare    = 8
	reserveMinBytes = 512 << 20
	reserveMaxBytes = 8 << 30
)

// ReserveBytes returns the reserve of a machine with totalBytes of RAM.
func ReserveBytes(totalBytes int64) int64 {
	return min(max(totalBytes/reserveShare, reserveMinBytes), reserveMaxBytes)
}

// HeadroomBytes returns how much memory is available for a model beside the running engines (a zero
// value means that none runs), once a part of them is unloaded: the memory that is free then, minus
// the reserve. The reserve is at most half of the free memory, so that a small model still runs on
// a full machine. If the user has set a wired limit, all models together stay within it.
//
// It is exactly what a load is given after that part was unloaded, so a model that fits is not
// refused. For the sum of HeadroomBytes and the unloaded bytes that does not hold: on a full
// machine, the reserve grows with the free memory.
func (r Reading) HeadroomBytes(engine, unloaded EngineBytes) int64 {
	free := r.FreeBytes(engine) + unloaded.Total()
	room := free - r.withheldBytes(free)
	if r.WiredLimitBytes > 0 {
		room = min(room, r.WiredLimitBytes-(engine.Total()-unloaded.Total()))
	}
	return max(room, 0)
}

// WithheldBytes is the part of the free memory that no new model gets.
func (r Reading) WithheldBytes(engine EngineBytes) int64 {
	return r.withheldBytes(r.FreeBytes(engine))
}

func (r Reading) withheldBytes(freeBytes int64) int64 {
	return min(ReserveBytes(r.TotalBytes), freeBytes/2)
}

// FreeBytes returns the memory that is neither used nor reserved. It is less than AvailableBytes,
// which includes Headroom's mapped file pages, and what is reserved for the running engines, which
// they have not written yet.
func (r Reading) FreeBytes(engine EngineBytes) int64 {
	return max(r.AvailableBytes-r.ProcessFileBytes-engine.Reserved, 0)
}

// Fit says whether a model fits into memory.
type Fit string

// The values of Fit.
const (
	Yes   Fit = "yes"
	Tight Fit = "tight" // it fits but leaves almost nothing free
	No    Fit = "no"
)

// tightPercent is the share of the room above which a fit is tight: then opening a browser may make
// the system swap.
const tightPercent = 85

// Fits reports whether a model that needs needBytes fits into roomBytes, a figure of HeadroomBytes.
func Fits(needBytes, roomBytes int64) Fit {
	switch {
	case needBytes > roomBytes:
		return No
	case needBytes > roomBytes/100*tightPercent:
		return Tight
	}
	return Yes
}

// Text returns a size of memory in words, as refusals of the engine do.
func Text(bytes int64) string { return problem.Memory(bytes) }

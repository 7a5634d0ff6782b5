package memory

// The reserve is memory that Headroom never offers to a model: an eighth of the total, so that the
// system and the next apps need not swap. It is at least half a GiB, which a desktop uses by
// itself. It is at most 8 GiB, because a larger one would only keep large models off large
// machines. (oMLX's middle tier reserves 8 GB, or 4 GB under 16 GB of RAM.)
const (
	reserveShare    = 8
	reserveMinBytes = 512 << 20
	reserveMaxBytes = 8 << 30
)

// ReserveBytes returns the reserve of a machine with totalBytes of RAM.
func ReserveBytes(totalBytes int64) int64 {
	return min(max(totalBytes/reserveShare, reserveMinBytes), reserveMaxBytes)
}

// HeadroomBytes returns how much memory a new model could use besides the running engine (the zero
// value if none runs): the free memory minus the reserve. The reserve is at most half of the free
// memory, so that a small model still runs on a full machine. A wired limit that the user has set
// bounds all memory of the GPU.
func (r Reading) HeadroomBytes(engine EngineBytes) int64 {
	free := r.freeBytes(engine)
	room := free - min(ReserveBytes(r.TotalBytes), free/2)
	if r.WiredLimitBytes > 0 {
		room = min(room, r.WiredLimitBytes-engine.Total())
	}
	return max(room, 0)
}

// freeBytes returns the memory that is neither used nor reserved. AvailableBytes includes our own
// mapped pages, and reserved pages that were never written, as those of a new cache.
func (r Reading) freeBytes(engine EngineBytes) int64 {
	return max(r.AvailableBytes-r.ProcessFileBytes-engine.Untouched, 0)
}

// Fit says whether a model fits into memory.
type Fit string

// The values of Fit.
const (
	Yes   Fit = "yes"
	Tight Fit = "tight" // it fits and leaves almost nothing free
	No    Fit = "no"
)

// tightPercent is the share of the room above which a fit is tight: opening a browser would then be
// enough to make the system swap.
const tightPercent = 85

// Fits reports whether a model that needs needBytes fits into roomBytes. The room is HeadroomBytes,
// plus the EngineBytes.Total of a running model that it would replace.
func Fits(needBytes, roomBytes int64) Fit {
	switch {
	case needBytes > roomBytes:
		return No
	case needBytes > roomBytes/100*tightPercent:
		return Tight
	}
	return Yes
}

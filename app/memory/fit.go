package memory

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

// HeadroomBytes returns how much memory a new model could use in addition to the running engines (a
// zero value means that none runs): the free memory minus the reserve. The reserve is at most half
// of the free memory, so that a small model still runs on a full machine. If the user has set a
// wired limit, all models together stay within it.
func (r Reading) HeadroomBytes(engine EngineBytes) int64 {
	room := r.FreeBytes(engine) - r.WithheldBytes(engine)
	if r.WiredLimitBytes > 0 {
		room = min(room, r.WiredLimitBytes-engine.Total())
	}
	return max(room, 0)
}

// WithheldBytes is the part of the free memory that no new model gets.
func (r Reading) WithheldBytes(engine EngineBytes) int64 {
	return min(ReserveBytes(r.TotalBytes), r.FreeBytes(engine)/2)
}

// FreeBytes returns the memory that is neither used nor reserved. It is less than AvailableBytes,
// which includes Headroom's mapped file pages, and reserved pages that were never written, such as
// those of a new cache.
func (r Reading) FreeBytes(engine EngineBytes) int64 {
	return max(r.AvailableBytes-r.ProcessFileBytes-engine.Untouched, 0)
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

// Fits reports whether a model that needs needBytes fits into roomBytes. The room is HeadroomBytes,
// plus the EngineBytes.Total of the loaded models that it would replace.
func Fits(needBytes, roomBytes int64) Fit {
	switch {
	case needBytes > roomBytes:
		return No
	case needBytes > roomBytes/100*tightPercent:
		return Tight
	}
	return Yes
}

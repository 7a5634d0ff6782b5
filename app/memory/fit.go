package memory

// The reserve is what Headroom never offers to a model: an eighth of the machine, so that the system and the apps that
// somebody opens next need not swap; not under half a GiB, which a desktop takes by itself, nor over 8 GiB, beyond which it
// would only keep large machines from large models. (oMLX's middle tier reserves 8 GB, or 4 GB under 16 GB of RAM.)
const (
	reserveShare    = 8
	reserveMinBytes = 512 << 20
	reserveMaxBytes = 8 << 30
)

// ReserveBytes is the reserve of a machine with so much RAM.
func ReserveBytes(totalBytes int64) int64 {
	return min(max(totalBytes/reserveShare, reserveMinBytes), reserveMaxBytes)
}

// HeadroomBytes is what a new model could take now: what is available, without our own pages that are counted as available,
// minus the reserve. Where somebody set a wired limit, the GPU holds no more than that.
func (r Reading) HeadroomBytes() int64 {
	room := r.AvailableBytes - r.ProcessFileBytes - ReserveBytes(r.TotalBytes)
	if r.WiredLimitBytes > 0 {
		room = min(room, r.WiredLimitBytes)
	}
	return max(room, 0)
}

// Fit judges a model.
type Fit string

// The judgements.
const (
	Yes   Fit = "yes"
	Tight Fit = "tight" // it fits, and leaves almost nothing
	No    Fit = "no"
)

// tightPercent of the room: above it, a browser opened later is enough to make the system swap.
const tightPercent = 85

// Fits judges whether a model that needs needBytes fits into roomBytes. The room is HeadroomBytes, and what the running model
// would give back if it is to be replaced.
func Fits(needBytes, roomBytes int64) Fit {
	switch {
	case needBytes > roomBytes:
		return No
	case needBytes > roomBytes/100*tightPercent:
		return Tight
	}
	return Yes
}

package memory

// The reserve is what Headroom never offers to a model: an eighth of the machine, so that the
// system and the apps that somebody opens next need not swap; not under half a GiB, which a desktop
// takes by itself, nor over 8 GiB, beyond which it would only keep large machines from large
// models. (oMLX's middle tier reserves 8 GB, or 4 GB under 16 GB of RAM.)
const (
	reserveShare    = 8
	reserveMinBytes = 512 << 20
	reserveMaxBytes = 8 << 30
)

// ReserveBytes is the reserve of a machine with so much RAM.
func ReserveBytes(totalBytes int64) int64 {
	return min(max(totalBytes/reserveShare, reserveMinBytes), reserveMaxBytes)
}

// HeadroomBytes is what a new model could take beside the running engine (zero: none runs): what is
// available, less what is ours already and what the engine has reserved but not touched yet, minus
// the reserve. The reserve takes at most half: a small model still runs on a full machine. Where
// somebody set a wired limit, the GPU holds no more than that in all.
func (r Reading) HeadroomBytes(engine EngineBytes) int64 {
	free := r.freeBytes(engine)
	room := free - min(ReserveBytes(r.TotalBytes), free/2)
	if r.WiredLimitBytes > 0 {
		room = min(room, r.WiredLimitBytes-engine.Total())
	}
	return max(room, 0)
}

// freeBytes is what nobody has, nor has been promised. AvailableBytes counts our own mapped pages,
// and pages that are reserved but not touched, as a cache's are before the first long conversation.
func (r Reading) freeBytes(engine EngineBytes) int64 {
	return max(r.AvailableBytes-r.ProcessFileBytes-engine.Untouched, 0)
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

// Fits judges whether a model that needs needBytes fits into roomBytes. The room is HeadroomBytes,
// plus EngineBytes.Total of a running model that would be replaced.
func Fits(needBytes, roomBytes int64) Fit {
	switch {
	case needBytes > roomBytes:
		return No
	case needBytes > roomBytes/100*tightPercent:
		return Tight
	}
	return Yes
}

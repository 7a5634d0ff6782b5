// Package memory accounts for the machine's RAM: how much there is, what uses it, and how much a
// new model could use.
//
// meter.go measures, ledger.go splits the total into the segments of the memory bar, fit.go has the
// figures (what is free, what is available for a model, and whether one fits), and pressure.go says
// how short memory is. Only meter*.go and pressure_*.go read the machine; the rest is arithmetic on
// a Reading.
package memory

// Reading is the state of the machine's RAM at one moment. All fields are in bytes.
type Reading struct {
	TotalBytes int64 // of the machine, or the limit of the container
	// AvailableBytes can be allocated without swapping. It includes clean file pages, mapped or
	// not.
	AvailableBytes int64
	// ProcessBytes is the resident memory of Headroom's processes: this one and those of
	// Meter.Count.
	ProcessBytes int64
	// ProcessFileBytes is the part of ProcessBytes that AvailableBytes includes, too: clean pages
	// of mapped files. It is 0 if the system does not report them, or does not count them as
	// available.
	ProcessFileBytes int64
	// RuntimeBytes is the memory of this process's Go runtime, a part of ProcessBytes. The engine's
	// tensors are not in it.
	RuntimeBytes    int64
	WiredLimitBytes int64 // the GPU's wired limit if the user has set one; 0: unknown
	Pressure        Pressure
}

// Source is the origin of a figure.
type Source string

// The sources. Estimated figures are shown with a tilde.
const (
	Measured  Source = "measured"  // by the engine or for this process
	Reported  Source = "reported"  // by the operating system
	Estimated Source = "estimated" // computed from other figures
)

// Kind is the kind of a segment of the memory bar.
type Kind string

// The kinds, in the order of the bar.
const (
	Weights  Kind = "weights"
	KVUsed   Kind = "kv_used"   // pages of running sequences
	KVCached Kind = "kv_cached" // other pages that were written: cached prefixes
	State    Kind = "state"     // recurrent state
	Scratch  Kind = "scratch"
	Reserved Kind = "reserved" // promised to the loaded models, and not used yet
	Headroom Kind = "headroom" // the rest of Headroom's processes
	Other    Kind = "other"    // other programs and the system
	Free     Kind = "free"     // can be allocated without swapping
)

// Segment is one part of TotalBytes.
type Segment struct {
	Kind   Kind   `json:"kind"`
	Bytes  int64  `json:"bytes"`
	Source Source `json:"source"`
}

// Ledger accounts for all RAM. Its segments add up to TotalBytes, and none is negative.
type Ledger struct {
	TotalBytes     int64 `json:"totalBytes"`
	AvailableBytes int64 `json:"availableBytes"`
	// HeadroomBytes is what is available for a model beside those that are loaded; see
	// Reading.HeadroomBytes.
	HeadroomBytes   int64     `json:"headroomBytes"`
	WiredLimitBytes int64     `json:"wiredLimitBytes"`
	Segments        []Segment `json:"segments"`
}

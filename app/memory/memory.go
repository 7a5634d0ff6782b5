// Package memory is the ledger of RAM: how much there is, what fills it, and what a new model could
// take.
//
// meter.go measures, ledger.go splits the total into the segments of the headroom bar, fit.go
// judges whether a model fits. Only meter.go and the files of one system touch the machine; the
// rest is arithmetic on a Reading.
package memory

// Reading is RAM at one moment, in bytes.
type Reading struct {
	TotalBytes int64 // of the machine, or of the container that we may use
	// that could be had without swapping; counts clean file pages as available, mapped ones too
	AvailableBytes int64
	// resident in Headroom's processes: this one, and those that Meter.Count named
	ProcessBytes int64
	// ProcessFileBytes are those of ProcessBytes that are clean pages of mapped files, as far as
	// AvailableBytes counts them too. 0 where the system does not tell, or does not count them.
	ProcessFileBytes int64
	// of ProcessBytes, what Go's runtime holds in this process: the program's own data, and nothing
	// of the engine's tensors
	RuntimeBytes    int64
	WiredLimitBytes int64 // what the GPU may hold, when somebody has set a limit; 0: unknown
}

// Source says where a figure comes from.
type Source string

// The sources. Estimated figures are shown with a tilde.
const (
	Measured  Source = "measured"  // by the engine or for this process
	Reported  Source = "reported"  // by the operating system
	Estimated Source = "estimated" // what is left over when the others are subtracted
)

// Kind is a part of the headroom bar.
type Kind string

// The kinds, in the order of the bar.
const (
	Weights  Kind = "weights"
	KVUsed   Kind = "kv_used" // pages that running sequences hold
	KVKept   Kind = "kv_kept" // pages reserved, or kept for reuse
	State    Kind = "state"   // recurrent state
	Scratch  Kind = "scratch"
	Headroom Kind = "headroom" // the program itself
	Other    Kind = "other"    // other programs and the system
	Free     Kind = "free"     // what can be had without swapping
)

// Segment is a part of the total.
type Segment struct {
	Kind   Kind   `json:"kind"`
	Bytes  int64  `json:"bytes"`
	Source Source `json:"source"`
}

// Ledger is the whole account. The segments add up to TotalBytes, and none is negative.
type Ledger struct {
	TotalBytes      int64 `json:"totalBytes"`
	AvailableBytes  int64 `json:"availableBytes"`
	HeadroomBytes   int64 `json:"headroomBytes"` // see Reading.HeadroomBytes
	WiredLimitBytes int64 `json:"wiredLimitBytes"`
	// of kv_kept, reserved and never written: counted there, and not resident
	UntouchedBytes int64     `json:"untouchedBytes"`
	Segments       []Segment `json:"segments"`
}

package memory

// Memory pressure: how short memory is, in the words of the system itself, and how much is in swap.
// pressure_*.go read both. A Mac has three levels. Linux reports the share of time in which
// programs wait for memory (PSI); levelOf makes levels of it.

// Level is how short memory is.
type Level string

// The levels, named as in macOS.
const (
	Unreported Level = "" // the system does not say
	Normal     Level = "normal"
	Warning    Level = "warning"  // programs should return what they can
	Critical   Level = "critical" // the system is about to end programs
)

// Short reports whether memory is short.
func (l Level) Short() bool { return l == Warning || l == Critical }

// Pressure is what the system says about memory at one moment.
type Pressure struct {
	Level          Level `json:"level"`
	SwapUsedBytes  int64 `json:"swapUsedBytes"`
	SwapTotalBytes int64 `json:"swapTotalBytes"` // it grows on a Mac
	// StallPercent is the share of the last ten seconds in which at least one program waited for
	// memory, on Linux; 0 on a Mac.
	StallPercent float64 `json:"stallPercent"`
}

// Shares of the last ten seconds, in percent. With a tenth lost by some program, answers get
// slower. systemd-oomd ends programs when some wait for 60 percent of half a minute. All programs
// waiting at once is the state before that, in which a desktop no longer answers.
const (
	warningSome  = 10
	criticalSome = 40
	criticalFull = 10
)

// levelOf returns the level for the shares of time in which some program waits for memory, and in
// which all do.
func levelOf(some, full float64) Level {
	switch {
	case some >= criticalSome || full >= criticalFull:
		return Critical
	case some >= warningSome:
		return Warning
	}
	return Normal
}

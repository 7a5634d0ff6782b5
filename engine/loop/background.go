package loop

// Requests in the background take what others leave (engine/sched/background.go). While others
// decode, that is a small share of the time. What a row costs the rows beside it differs between
// machines: on a GPU that reads the weights once for all rows it is little, on a CPU a row costs
// as much as any other. So the loop measures it. A step with background rows that takes longer than
// a usual step without makes a debt, and each step without pays a share of its own duration. A
// step may have background rows only while nothing is owed. So the others lose backgroundShare of
// their speed, whatever a row costs.

import (
	"slices"
	"time"

	"headroom/engine/sched"
)

// backgroundShare is the part of their time that other requests lose to the background.
const backgroundShare = 0.02

// background is the measured cost of background rows. Its zero value owes nothing, but allows
// nothing before a step without background rows was measured.
type background struct {
	alone float64 // seconds of a decoding step without background rows, on average; 0: unknown
	debt  float64 // seconds by which the others were delayed and have not been paid back
}

// observe records how long a step took.
func (b *background) observe(work []sched.Work, took time.Duration) {
	foreground, shared, prompts := false, false, false
	for _, w := range work {
		if w.Seq.Background {
			shared = true
			continue
		}
		foreground = true
		prompts = prompts || w.To-w.From-w.Drafts > 1
	}
	seconds := took.Seconds()
	switch {
	case !foreground: // nobody is delayed
	case shared:
		b.debt += max(0, seconds-b.alone)
	case prompts: // says nothing about decoding
	default:
		const weight = 0.1 // of a step in the average
		if b.alone == 0 {
			b.alone = seconds
		}
		b.alone += weight * (seconds - b.alone)
		b.debt = max(0, b.debt-backgroundShare*seconds)
	}
}

// allowed reports whether the next step of others may have background rows.
func (b *background) allowed() bool { return b.alone > 0 && b.debt == 0 }

// foregroundRuns reports whether a request that is not in the background runs.
func (l *Loop) foregroundRuns() bool {
	return slices.ContainsFunc(l.requests,
		func(r *request) bool { return !r.Background && r.seq.Slot >= 0 })
}

package loop

// A request is admitted when there is memory for its conversation (sched/promise.go). Until then it
// waits: for requests before it, for other models, or for other apps. After a while it is refused,
// with the figures; sooner if no request of this model runs that could free some.

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"headroom/engine/problem"
	"headroom/engine/sched"
)

// lackingWait is the longest time for which a request waits for memory while nothing runs, unless a
// test sets another one. While shorter requests run, it waits lackingTurns times as long: their end
// may free some.
const (
	lackingWait  = 20 * time.Second
	lackingTurns = 6
)

// refuseLacking ends the requests that have waited for memory in vain. The host says every few
// seconds how much there is (SetGrowth), which wakes the loop.
func (l *Loop) refuseLacking(now time.Time) {
	runs := false
	for _, r := range l.requests {
		runs = runs || r.seq.Slot >= 0
		switch {
		case !r.seq.LacksMemory:
			r.lacksSince = time.Time{}
		case r.lacksSince.IsZero():
			r.lacksSince = now
		}
	}
	wait := cmp.Or(l.lackingWait, lackingWait)
	if runs {
		wait *= lackingTurns
	}
	for _, r := range slices.Clone(l.requests) {
		if !r.lacksSince.IsZero() && now.Sub(r.lacksSince) >= wait {
			l.finish(r, FinishError, l.lacking(r))
		}
	}
}

// lackingBytes returns the memory that r waits for: that of its prompt and the shortest answer that
// it is admitted for. 0: it waits for none.
func (l *Loop) lackingBytes(r *request) int64 {
	if !r.seq.LacksMemory {
		return 0
	}
	least := min(r.seq.Most, len(r.seq.Tokens)+sched.LeastAnswer)
	return l.pageBytes(l.sched.PagesFor(least))
}

// lacking returns the Problem of a request for which there is too little memory.
func (l *Loop) lacking(r *request) error {
	return problem.New(problem.LowResources, "There is too little memory for this conversation",
		fmt.Sprintf("%d tokens and an answer take %s, %s is available", len(r.Prompt),
			problem.Memory(l.lackingBytes(r)), problem.Memory(l.pageBytes(l.sched.MostPages()))),
		"Unload another model, close other apps, or start a shorter conversation.")
}

package keys

// The limits of a key's requests: how many begin in a minute, and how many run at once.

import (
	"context"
	"fmt"
	"time"

	"headroom/engine/guard"
	"headroom/engine/problem"
)

// window is the time over which requests are counted. In none of this length, wherever it begins,
// are there more than the limit.
const window = time.Minute

// state is what this process knows of a key's requests.
type state struct {
	begun   []time.Time // when the requests of the last minute have begun, the earliest first
	running map[*context.CancelCauseFunc]bool
	// background are those that count for no limit.
	background map[*context.CancelCauseFunc]bool
	unsaved    Usage // not in the file yet
}

// stateOf returns the state of the key with an ID. mu is locked.
func (s *Store) stateOf(id string) *state {
	st := s.states[id]
	if st == nil {
		st = &state{running: map[*context.CancelCauseFunc]bool{},
			background: map[*context.CancelCauseFunc]bool{}}
		s.states[id] = st
	}
	return st
}

// begin returns what begins the requests of the key with an ID, with its limits or without; see
// guard.Caller.
func (s *Store) begin(id string, limited bool) func(context.CancelCauseFunc) (func(guard.Used),
	error) {
	return func(cancel context.CancelCauseFunc) (end func(guard.Used), err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := s.indexOf(id)
		if i < 0 {
			return nil, errRemoved()
		}
		st := s.stateOf(id)
		running := st.background
		if limited {
			running = st.running
			if err := st.allow(s.list[i].Limits, s.now()); err != nil {
				return nil, err
			}
		}
		running[&cancel] = true
		s.use(id, Usage{Requests: 1, LastUse: s.now()})
		return func(used guard.Used) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(running, &cancel)
			if s.indexOf(id) >= 0 {
				s.use(id, Usage{PromptTokens: int64(used.PromptTokens),
					GeneratedTokens: int64(used.GeneratedTokens)})
			}
		}, nil
	}
}

// allow counts a request that begins now, or returns a Problem that says when it may be sent again.
func (st *state) allow(l Limits, now time.Time) error {
	if most := l.ConcurrentRequests; most > 0 && len(st.running) >= most {
		return problem.New(problem.Busy,
			fmt.Sprintf("This API key may have %s at once, and has as many", requests(most)), "",
			"Send it again when one of them has ended.")
	}
	old := 0
	for old < len(st.begun) && now.Sub(st.begun[old]) >= window {
		old++
	}
	st.begun = st.begun[old:]
	most := l.RequestsPerMinute
	if most <= 0 {
		st.begun = nil
		return nil
	}
	if n := len(st.begun); n >= most {
		// n is larger if the limit has become smaller.
		wait := window - now.Sub(st.begun[n-most])
		what := fmt.Sprintf("This API key may send %s per minute, and has sent as many",
			requests(most))
		seconds := int((wait + time.Second - 1) / time.Second)
		p := problem.New(problem.Busy, what, "", fmt.Sprintf("Send it again in %d s.", seconds))
		p.RetryAfter = wait
		return p
	}
	st.begun = append(st.begun, now)
	return nil
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// end ends the requests that are running, because their key was removed.
func (st *state) end() {
	for _, requests := range []map[*context.CancelCauseFunc]bool{st.running, st.background} {
		for cancel := range requests {
			(*cancel)(errRemoved())
		}
	}
}

func errRemoved() error {
	return problem.New(problem.Unauthorized, "The API key was removed", "", "Use another one.")
}

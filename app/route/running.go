package route

// What the pages show: requests that other machines answer, and the machines' states.

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"headroom/engine/problem"
)

// Running is a request that another machine answers.
type Running struct {
	ID      string
	Machine string
	Model   string
	Client  string // the name of the program
	Key     string // the name of the API key; "": it has none
	Begun   time.Time
	Answers bool // the answer has begun

	cancel context.CancelCauseFunc
}

// Running returns the requests that other machines answer, the oldest first.
func (r *Router) Running() []Running {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Running, 0, len(r.running))
	for one := range r.running {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b Running) int {
		return cmp.Or(a.Begun.Compare(b.Begun), strings.Compare(a.ID, b.ID))
	})
	return list
}

// errCancelled is the cause of the end of a request that Cancel has ended.
var errCancelled = problem.New(problem.Cancelled, "The request was cancelled", "", "")

// Cancel ends a request that another machine answers. It reports whether there is one with the ID.
func (r *Router) Cancel(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.running {
		if one.ID == id {
			one.cancel(errCancelled)
			return true
		}
	}
	return false
}

// begin adds a request to Running until end is called.
func (r *Router) begin(q *question, e *target, cancel context.CancelCauseFunc) (answers,
	end func()) {
	one := &Running{ID: q.ID, Machine: e.stored.Name, Model: e.model, Client: q.Client,
		Begun: time.Now(), cancel: cancel}
	if q.Caller != nil {
		one.Key = q.Caller.Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[one] = true
	return func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			one.Answers = true
		}, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.running, one)
		}
}

// errGone is the cause of the end of a request whose machine has gone.
var errGone = errors.New("it has not answered for some time")

// MachineState is what is known of a machine that is on.
type MachineState struct {
	ID       string
	Info     // what it said last
	Err      error
	Requests int // that this machine has sent and that are not answered
}

// States returns the states of the machines that are on.
func (r *Router) States() []MachineState {
	var list []MachineState
	for _, m := range r.machines() {
		s := m.state.Load()
		one := MachineState{ID: m.stored.ID, Info: s.Info, Err: s.Err}
		m.mu.Lock()
		for _, n := range m.requests {
			one.Requests += n
		}
		m.mu.Unlock()
		list = append(list, one)
	}
	return list
}

package server

// Requests that outlive the model's process. If the process ends before a request has a token of
// its answer, nothing is lost: the request is submitted again as soon as the model is loaded again.
// Its client notices only the time.

import (
	"cmp"
	"context"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

const (
	maxMoves = 2 // how often a request is submitted again
	// movePause is the pause after a refusal that passes, and moveTime how long such refusals are
	// taken: the host has yet to notice the end of the process, or other requests have their turn.
	movePause = 100 * time.Millisecond
	moveTime  = 2 * time.Minute
)

// lostProcess reports whether a request has ended with the model's process.
func lostProcess(err error) bool {
	if err == nil {
		return false
	}
	code := problem.From(err).Code
	return code == problem.Crashed || code == problem.Loading
}

// move submits the request of an answer again, to the next process of the model.
func (s *Server) move(ctx context.Context, a *answer, g *generation, q engine.Request) error {
	for begun := time.Now(); ; {
		var m Model
		err := a.during(ctx, func() (err error) {
			m, err = s.models.Wake(ctx, g.model.ID)
			return err
		})
		if m.Engine != nil {
			g.held.hold(m)
		}
		if err != nil {
			return err
		}
		a.stream, err = m.Engine.Submit(q)
		if err == nil {
			return nil
		}
		passes := lostProcess(err) || problem.From(err).Code == problem.Busy
		if !passes || time.Since(begun) > moveTime {
			return err
		}
		if err := a.during(ctx, func() error { return pause(ctx, movePause) }); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// during runs work, which must return soon after ctx ends. Meanwhile it keeps the client's
// connection alive.
func (a *answer) during(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	var failed error // the client has gone
	tick := time.NewTicker(a.keepAlive)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return cmp.Or(failed, err)
		case <-tick.C:
			if err := a.out.progress(0, a.usage.PromptTokens); err != nil && failed == nil {
				failed = err // work uses the caller's variables: wait for it
			}
		}
	}
}

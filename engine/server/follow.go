package server

import (
	"context"
	"net/http"

	"headroom/engine/problem"
)

// Work answers a request with lines of JSON; see Route.Follow. It sends at least one, or returns an
// error. send returns an error if the client has disconnected.
type Work func(ctx context.Context, with Resources, send func(line any) error) error

// Progress is that of a download.
type Progress struct {
	File                  string // the current one; "": none
	DoneBytes, TotalBytes int64  // TotalBytes is 0 if it is not known
}

// Pull downloads the model with that name, and calls report with its progress until it is here. It
// returns the error of report, if there is one, or a Problem.
func (r Resources) Pull(ctx context.Context, name string, report func(Progress) error) error {
	if r.pull == nil {
		return problem.New(problem.BadRequest, "This server downloads no models", "", "")
	}
	return r.pull(ctx, name, report)
}

// Delete deletes the model with that name. Errors are Problems.
func (r Resources) Delete(name string) error {
	if r.delete == nil {
		return problem.New(problem.BadRequest, "This server deletes no models", "", "")
	}
	return r.delete(name)
}

// follow answers a request with the lines of a Work.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, d Dialect, route Route) {
	var work Work
	err := s.withBody(r, nil, func(body []byte) (err error) {
		work, err = route.Follow(body)
		return err
	})
	if err != nil {
		s.refuse(w, r, ended(r.Context(), err))
		return
	}
	var lines *eventWriter
	err = work(r.Context(), s.resources(r), func(line any) error {
		if lines == nil {
			lines = startEvents(w, JSONLines, s.writeTimeout, nil)
		}
		return lines.event(Event{Data: line})
	})
	switch err = ended(r.Context(), err); {
	case err == nil:
	case lines == nil:
		s.refuse(w, r, err)
	default:
		recordOf(r).fail(err)
		_ = lines.event(d.Error(&requestError{err, recordOf(r).request}))
	}
}

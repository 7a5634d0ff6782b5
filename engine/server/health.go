package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"headroom/engine/problem"
)

// healthPatience is how long GET /health waits for the model's process.
const healthPatience = 700 * time.Millisecond

// health is the body of GET /health and GET /ready.
type health struct {
	Status  string `json:"status"`
	Model   string `json:"model,omitempty"`
	Reason  string `json:"reason,omitempty"` // a code of Problems
	Message string `json:"message,omitempty"`
	// RetryAfter is when the model is likely to answer, in seconds.
	RetryAfter int `json:"retry_after,omitempty"`
}

// handleHealth tells whether the server does its work. While the model that it was started with is
// loading, or if that has failed, the status is 503. After that it is always 200, because a
// supervisor must not restart the server for lack of a model: a model that crashed or does not
// answer is loaded again by itself, which is the status "degraded".
func (s *Server) handleHealth(w http.ResponseWriter, _ *http.Request) {
	body, _, first := s.modelHealth()
	status := http.StatusOK
	if first {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
}

// handleReady answers 200 if a generation would be answered now, or after a load that it causes,
// and 503 otherwise.
func (s *Server) handleReady(w http.ResponseWriter, _ *http.Request) {
	body, ready, _ := s.modelHealth()
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
}

// modelHealth returns the health of the default model. first means that no model has run yet, and
// one should.
func (s *Server) modelHealth() (body health, ready, first bool) {
	m, err := s.models.Acquire("")
	if err == nil {
		body.Model = m.ID
		err = healthOf(m.Engine, healthPatience)
	} else if wanter, ok := s.models.(Wanter); ok {
		if first, err = wanter.Wanted(); err == nil {
			// No model is wanted. It is no fault that none is loaded.
			return health{Status: "ok"}, s.loadsOnRequest(), false
		}
	}
	if err == nil {
		body.Status = "ok"
		return body, true, false
	}
	p := problem.From(err)
	switch {
	case p.RetryAfter > 0 || p.Code == problem.Unresponsive:
		body.Status = "degraded"
		return body.because(p), false, first
	case first && p.Code != problem.Loading:
		body.Status = "failed"
		return body.because(p), false, first
	}
	body.Status = string(p.Code)
	return body, false, first
}

// loadsOnRequest reports whether there is a model that a request loads.
func (s *Server) loadsOnRequest() bool {
	return slices.ContainsFunc(s.models.List(),
		func(m ModelInfo) bool { return m.State == Unloaded })
}

// because adds the reason of a status.
func (h health) because(p *problem.Problem) health {
	h.Reason, h.Message = string(p.Code), p.Message
	if p.Why != "" {
		h.Message += ": " + p.Why
	}
	h.RetryAfter = replyOf(p).retryAfter
	return h
}

// healthOf returns a Problem if the model's process does not answer within patience.
func healthOf(e Engine, patience time.Duration) error {
	if e, ok := e.(interface{ Health(time.Duration) error }); ok {
		return e.Health(patience)
	}
	return nil
}

// handleUnknown answers what has no route. The body, which is not read, may ask for privacy, so the
// path is logged for GET and HEAD only.
func (s *Server) handleUnknown(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		recordOf(r).private = true
	}
	var allowed []string
	if slices.Contains(ownPaths, r.URL.Path) {
		allowed = []string{http.MethodGet}
	}
	for _, method := range methods {
		if s.dialectOf(r, method) != nil {
			allowed = append(allowed, method)
		}
	}
	if allowed != nil {
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		s.refuse(w, r, problem.New(problem.MethodNotAllowed, r.Method+" is not possible at "+
			r.URL.Path, "", "Send "+list+"."))
		return
	}
	s.refuse(w, r, problem.New(problem.NotFound, "There is nothing at "+r.Method+" "+r.URL.Path, "",
		"The routes are "+s.routeList()+"."))
}

// routeList lists the routes without variables, as "GET /a, GET /health, GET /metrics, GET
// /openapi.json and GET /ready".
func (s *Server) routeList() string {
	var list []string
	for _, d := range s.dialects {
		for _, route := range d.Routes() {
			if !strings.Contains(route.Pattern, "{") {
				list = append(list, route.Pattern)
			}
		}
	}
	for _, path := range ownPaths {
		list = append(list, "GET "+path)
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

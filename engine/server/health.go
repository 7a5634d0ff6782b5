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

// handleHealth answers 200 whether a model is loaded or not, because a supervisor must not restart
// the server for lack of a model. If the model is loaded again by itself, or does not answer, the
// status is "degraded", with the reason.
func (s *Server) handleHealth(w http.ResponseWriter, r *http.Request) {
	body := struct {
		Status  string `json:"status"`
		Model   string `json:"model,omitempty"`
		Reason  string `json:"reason,omitempty"` // a code of Problems
		Message string `json:"message,omitempty"`
		// RetryAfter is when the model is likely to answer, in seconds.
		RetryAfter int `json:"retry_after,omitempty"`
	}{Status: "ok"}
	m, err := s.models.Acquire("")
	if err == nil {
		body.Model = m.ID
		err = healthOf(m, healthPatience)
	}
	if err != nil {
		p := problem.From(err)
		body.Status = string(p.Code)
		if p.RetryAfter > 0 || p.Code == problem.Unresponsive {
			body.Status, body.Reason, body.Message = "degraded", string(p.Code), p.Message
			if p.Why != "" {
				body.Message += ": " + p.Why
			}
			body.RetryAfter = replyOf(p).retryAfter
		}
	}
	writeJSON(w, http.StatusOK, body)
}

// healthOf returns a Problem if the model's process does not answer within patience.
func healthOf(m Model, patience time.Duration) error {
	if e, ok := m.Engine.(interface{ Health(time.Duration) error }); ok {
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

// routeList lists the routes without variables, as "GET /a, GET /health and GET /metrics".
func (s *Server) routeList() string {
	var list []string
	for _, d := range s.dialects {
		for _, route := range d.Routes() {
			if !strings.Contains(route.Pattern, "{") {
				list = append(list, route.Pattern)
			}
		}
	}
	list = slices.Concat(list, []string{"GET /health"})
	return strings.Join(list, ", ") + " and GET /metrics"
}

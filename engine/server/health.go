package server

import (
	"net/http"
	"slices"
	"strings"

	"headroom/engine/problem"
)

// handleHealth answers 200 whether a model is loaded or not, because a supervisor must not restart
// the server for lack of a model.
func (s *Server) handleHealth(w http.ResponseWriter, r *http.Request) {
	body := struct {
		Status string `json:"status"`
		Model  string `json:"model,omitempty"`
	}{Status: "ok"}
	if m, err := s.models.Acquire(""); err == nil {
		body.Model = m.ID
	} else {
		body.Status = string(problem.From(err).Code)
	}
	writeJSON(w, http.StatusOK, body)
}

func (s *Server) handleUnknown(w http.ResponseWriter, r *http.Request) {
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

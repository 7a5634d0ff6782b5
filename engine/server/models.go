package server

import (
	"net/http"
	"time"

	"headroom/engine/openai"
	"headroom/engine/problem"
)

// started is the "created" of all models: what a folder's time is worth, nobody can say.
var started = time.Now().Unix()

func (s *Server) handleModels(w http.ResponseWriter, r *http.Request) {
	var list []openai.Model
	for _, m := range s.models.List() {
		list = append(list, openai.NewModel(m.ID, started, m.ContextTokens))
	}
	writeJSON(w, http.StatusOK, openai.NewModelList(list))
}

func (s *Server) handleModel(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	for _, m := range s.models.List() {
		if m.ID == id {
			writeJSON(w, http.StatusOK, openai.NewModel(m.ID, started, m.ContextTokens))
			return
		}
	}
	if _, err := s.models.Acquire(id); err != nil {
		s.refuse(w, r, err) // names what there is
		return
	}
	s.refuse(w, r, problem.New(problem.ModelNotFound, "There is no model \""+id+"\" here", "",
		"GET /v1/models lists those there are."))
}

// handleHealth is 200 as long as the process serves, with or without a model: a supervisor must not
// restart it for that.
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
		"There are POST /v1/chat/completions, POST /v1/completions, GET /v1/models, GET /health "+
			"and GET /metrics."))
}

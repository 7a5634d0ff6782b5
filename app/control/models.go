package control

// The models over HTTP: the documents of app/host/models.go, word for word.

import (
	"net/http"
	"strconv"

	"headroom/app/host"
	"headroom/engine/problem"
)

// WatchRequest is the body of /api/models/watching.
type WatchRequest struct {
	Paused bool `json:"paused"`
}

// RemoveRequest is the body of /api/models/{id}/remove. An empty Path means the only place.
type RemoveRequest struct {
	Path string `json:"path"`
}

// ModelsEvent is the data of a "models" event.
type ModelsEvent struct {
	Changes []host.ModelChange `json:"changes"`
}

func (a *API) modelRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/models", a.handleModels)
	mux.HandleFunc("POST /api/models/rescan", func(w http.ResponseWriter, r *http.Request) {
		a.host.RescanModels()
		a.handleModels(w, r)
	})
	mux.HandleFunc("POST /api/models/watching", func(w http.ResponseWriter, r *http.Request) {
		var q WatchRequest
		err := readBody(w, r, &q, `{"paused": true}`)
		if err == nil {
			err = a.host.PauseWatching(q.Paused)
		}
		nothing(w, err)
	})
	mux.HandleFunc("POST /api/models/{id}/remove", func(w http.ResponseWriter, r *http.Request) { // the ID's "/" is written %2F
		var q RemoveRequest
		err := readBody(w, r, &q, `{"path": "/folder"}`)
		if err == nil {
			err = a.host.RemoveModel(r.PathValue("id"), q.Path)
		}
		nothing(w, err)
	})
}

func (a *API) handleModels(w http.ResponseWriter, r *http.Request) {
	const mostTokens = 1 << 30
	tokens := 0
	if text := r.URL.Query().Get("context"); text != "" {
		var err error
		if tokens, err = strconv.Atoi(text); err != nil || tokens < 0 || tokens > mostTokens {
			refuse(w, problem.New(problem.BadRequest, "The context cannot be "+strconv.Quote(text), "it is a number of tokens", "Send ?context=32768, or none."))
			return
		}
	}
	write(w, http.StatusOK, a.host.Models(tokens))
}

// nothing answers with no document, or with why not.
func nothing(w http.ResponseWriter, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

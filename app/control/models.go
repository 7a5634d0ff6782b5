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

// PlaceRequest is the body of /api/models/{id}/remove and reveal. An empty Path means the only
// place, or the first to be shown.
type PlaceRequest struct {
	Path string `json:"path"`
}

// ModelsEvent is the data of a "models" event.
type ModelsEvent struct {
	Changes []host.ModelChange `json:"changes"`
}

func (a *API) modelRoutes() []Route {
	context := Query{"context",
		"Tokens of the one conversation that needBytes and fits are for; none: what each model " +
			"would be opened with."}
	return []Route{
		route("GET /api/models", "Everything that was found on this machine.", "",
			func(r *http.Request, _ nothing) (host.ModelList,
				error) {
				return a.modelList(r)
			}).with(context),
		route("POST /api/models/rescan", "Reads all folders anew, and answers when that is done.",
			"",
			func(r *http.Request, _ nothing) (host.ModelList, error) {
				a.host.RescanModels()
				return a.modelList(r)
			}).with(context),
		route("POST /api/models/watching", "Whether the list follows the disk by itself.",
			`{"paused": true}`,
			func(_ *http.Request, q WatchRequest) (nothing, error) {
				return nothing{}, a.host.PauseWatching(q.Paused)
			}),
		route("POST /api/models/{id}/remove",
			"Moves a model to the trash. The \"/\" of an ID is written %2F.", `{"path": "/folder"}`,
			func(r *http.Request, q PlaceRequest) (nothing, error) {
				return nothing{}, a.host.RemoveModel(r.PathValue("id"), q.Path)
			}),
		route("POST /api/models/{id}/reveal",
			"Shows a model's folder in the system's file manager.", `{"path": "/folder"}`,
			func(r *http.Request, q PlaceRequest) (nothing, error) {
				return nothing{}, a.host.RevealModel(r.PathValue("id"), q.Path)
			}),
	}
}

func (a *API) modelList(r *http.Request) (host.ModelList, error) {
	tokens, err := contextOf(r)
	if err != nil {
		return host.ModelList{}, err
	}
	return a.host.Models(tokens), nil
}

// contextOf is ?context=, 0 if there is none. The error is a Problem.
func contextOf(r *http.Request) (tokens int, err error) {
	const mostTokens = 1 << 30
	text := r.URL.Query().Get("context")
	if text == "" {
		return 0, nil
	}
	if tokens, err = strconv.Atoi(text); err != nil || tokens < 0 || tokens > mostTokens {
		return 0, problem.New(problem.BadRequest, "The context cannot be "+strconv.Quote(text),
			"it is a number of tokens", "Send ?context=32768, or none.")
	}
	return tokens, nil
}

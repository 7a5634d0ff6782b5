package control

// The models over HTTP, as app/host/models.go encodes them.

import (
	"net/http"
	"strconv"

	"headroom/app/host"
	"headroom/engine/problem"
)

// WatchRequest is the body of /control/models/watching.
type WatchRequest struct {
	Paused bool `json:"paused"`
}

// PlaceRequest is the body of /control/models/{id}/remove and reveal. Path selects one of several
// copies of a model. An empty Path means its only copy, and for reveal the first one.
type PlaceRequest struct {
	Path string `json:"path"`
}

// ModelsEvent is the data of a "models" event.
type ModelsEvent struct {
	Changes []host.ModelChange `json:"changes"`
}

func (a *API) modelRoutes() []Route {
	context := Query{"context",
		"The context length, in tokens, for which needBytes and fits are computed. Default: the " +
			"context with which each model would be loaded."}
	return []Route{
		route("GET /control/models", "Lists the models on this machine.", "",
			func(r *http.Request, _ nothing) (host.ModelList, error) {
				return a.modelList(r)
			}).withQueries(context),
		route("POST /control/models/rescan",
			"Scans all folders again, and responds when the scan is complete.",
			"",
			func(r *http.Request, _ nothing) (host.ModelList, error) {
				a.host.RescanModels()
				return a.modelList(r)
			}).withQueries(context),
		route("POST /control/models/watching",
			"Pauses or resumes watching the folders for changes.", `{"paused": true}`,
			func(_ *http.Request, q WatchRequest) (nothing, error) {
				return nothing{}, a.host.PauseWatching(q.Paused)
			}),
		route("POST /control/models/{id}/remove",
			"Moves a model to the Trash. Encode the \"/\" in its ID as %2F.", `{"path": "/folder"}`,
			func(r *http.Request, q PlaceRequest) (nothing, error) {
				return nothing{}, a.host.RemoveModel(r.PathValue("id"), q.Path)
			}),
		route("POST /control/models/{id}/reveal",
			"Shows a model's folder in the Finder, or in the file manager of this system.",
			`{"path": "/folder"}`,
			func(r *http.Request, q PlaceRequest) (nothing, error) {
				return nothing{}, a.host.RevealModel(r.PathValue("id"), q.Path)
			}),
		route("GET /control/models/{id}/check",
			"Returns the last check of a model: whether what makes it faster changes its "+
				"answers. It changes when State.checksVersion does.", "",
			func(r *http.Request, _ nothing) (host.ModelCheck, error) {
				return a.host.Check(r.PathValue("id"))
			}),
		route("POST /control/models/{id}/check",
			"Starts to check a model in the background, in a process of its own. One check runs "+
				"at a time.", "",
			func(r *http.Request, _ nothing) (host.ModelCheck, error) {
				if err := a.host.StartCheck(r.PathValue("id")); err != nil {
					return host.ModelCheck{}, err
				}
				return a.host.Check(r.PathValue("id"))
			}).withStatus(http.StatusAccepted),
		route("POST /control/models/{id}/check/stop",
			"Stops the check of a model. Its process ends within about a second.", "",
			func(r *http.Request, _ nothing) (nothing, error) {
				a.host.StopCheck(r.PathValue("id"))
				return nothing{}, nil
			}),
	}
}

func (a *API) modelList(r *http.Request) (host.ModelList, error) {
	tokens, err := contextParameter(r)
	if err != nil {
		return host.ModelList{}, err
	}
	return a.host.Models(tokens), nil
}

// contextParameter returns the query parameter context, or 0 without one. The error is a Problem.
func contextParameter(r *http.Request) (tokens int, err error) {
	const maxTokens = 1 << 30
	text := r.URL.Query().Get("context")
	if text == "" {
		return 0, nil
	}
	if tokens, err = strconv.Atoi(text); err != nil || tokens < 0 || tokens > maxTokens {
		return 0, problem.New(problem.BadRequest, strconv.Quote(text)+" is not a valid context",
			"the context is a number of tokens", "Send ?context=32768, or leave it out.")
	}
	return tokens, nil
}

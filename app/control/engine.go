package control

// The engine over HTTP: what it does now, starting and stopping it, and its requests.

import (
	"net/http"

	"headroom/app/host"
	"headroom/engine/problem"
)

// StartRequest is the body of /api/engine/start. An empty Model means the one that ran last, or the
// bundled one.
type StartRequest struct {
	Model string `json:"model"`
}

func (a *API) engineRoutes() []Route {
	state := func() (host.State, error) { return a.host.State(), nil }
	return []Route{
		route("GET /api/state",
			"All that a view shows but the lists that have addresses of their own.", "",
			func(*http.Request, nothing) (host.State, error) { return state() }),
		{Pattern: "GET /api/events", Events: true, Status: http.StatusOK,
			serve: func(w http.ResponseWriter, r *http.Request, _ Route) { a.handleEvents(w, r) },
			Does: "Server-sent events: \"state\" with the document of /api/state, at once and " +
				"after changes, and \"models\" with a ModelsEvent."},
		route("POST /api/engine/start",
			"Loads a model, in the background; the one that ran last, or the bundled one, if none "+
				"is named.", `{"model": "ID"}`,
			func(_ *http.Request, q StartRequest) (host.State, error) {
				if err := a.host.Start(q.Model); err != nil {
					return host.State{}, err
				}
				return state()
			}).answering(http.StatusAccepted),
		route("POST /api/engine/stop", "Unloads the model, or gives up loading it.", "",
			func(*http.Request, nothing) (host.State, error) {
				a.host.Stop()
				return state()
			}),
		route("POST /api/requests/{id}/cancel", "Ends a request; its pages are free at once.", "",
			func(r *http.Request, _ nothing) (nothing, error) {
				if id := r.PathValue("id"); !a.host.Cancel(id) {
					return nothing{}, problem.New(problem.NotFound, "There is no request "+id,
						"it may have ended", "The requests that run are those of the state.")
				}
				return nothing{}, nil
			}),
		route("GET /api/requests/recent",
			"The last requests that ended, and why their prompts were read again. New where "+
				"State.lastFinished changes.", "",
			func(*http.Request, nothing) (host.FinishedList, error) {
				return a.host.Finished(),
					nil
			}),
	}
}

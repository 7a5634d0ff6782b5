package control

// The engine over HTTP: its state, loading and unloading a model, and its requests.

import (
	"net/http"

	"headroom/app/host"
	"headroom/engine/problem"
)

// StartRequest is the body of /control/engine/start. An empty Model means the one that was loaded
// last, or the bundled one.
type StartRequest struct {
	Model string `json:"model"`
}

// StopRequest is the body of /control/engine/stop. An empty Model means all models.
type StopRequest struct {
	Model string `json:"model"`
}

func (a *API) engineRoutes() []Route {
	state := func() (host.State, error) { return a.state(), nil }
	return []Route{
		route("GET /control/state",
			"Returns the state of Headroom. Models, jobs and conversations have their own routes.",
			"",
			func(*http.Request, nothing) (host.State, error) { return state() }),
		{Pattern: "GET /control/events", Events: true, Status: http.StatusOK,
			serve: func(w http.ResponseWriter, r *http.Request, _ Route) { a.handleEvents(w, r) },
			Summary: "Streams server-sent events: \"state\" at once and after each change, " +
				"\"models\", \"jobs\" and \"chats\" after changes of those lists."},
		route("POST /control/engine/start",
			"Loads a model in the background: the named one, or the one that was loaded last, or "+
				"the bundled one. Others stay loaded if memory allows.", `{"model": "ID"}`,
			func(_ *http.Request, q StartRequest) (host.State, error) {
				if err := a.host.Start(q.Model); err != nil {
					return host.State{}, err
				}
				return state()
			}).withStatus(http.StatusAccepted),
		route("POST /control/engine/stop",
			"Unloads a model, or cancels loading it. Without a body it stops all models. The "+
				"answer comes when their memory is free, or within a second.", `{"model": "ID"}`,
			func(_ *http.Request, q StopRequest) (host.State, error) {
				if _, _, err := soon(func() (nothing, error) {
					if q.Model != "" {
						return nothing{}, a.host.StopModel(q.Model)
					}
					a.host.Stop()
					return nothing{}, nil
				}); err != nil {
					return host.State{}, err
				}
				return state()
			}),
		route("POST /control/requests/{id}/cancel",
			"Cancels a request and frees its cache blocks.", "",
			func(r *http.Request, _ nothing) (nothing, error) {
				if id := r.PathValue("id"); !a.cancel(id) {
					return nothing{}, problem.New(problem.NotFound, "There is no request "+id,
						"it may have ended", "GET /control/state lists the running requests.")
				}
				return nothing{}, nil
			}),
		route("GET /control/requests/recent",
			"Lists the last finished requests, and why the prefix cache missed. The list changes "+
				"when State.lastFinished does.", "",
			func(*http.Request, nothing) (host.FinishedList, error) {
				return a.host.Finished(), nil
			}),
	}
}

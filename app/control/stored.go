package control

// What is stored on this computer, and its deletion.

import (
	"context"
	"net/http"

	"headroom/app/stored"
	"headroom/engine/problem"
)

// Stored lists and deletes what is stored; *service.Service implements it.
type Stored interface {
	Stored() stored.List
	// DeleteStored deletes chats, cache, unfinished jobs and log, and what the choice adds. The
	// error is a Problem. What could not be deleted is in the result.
	DeleteStored(context.Context, stored.Choice) (stored.Deleted, error)
}

// DeleteStored is the body of POST /control/stored/delete.
type DeleteStored struct {
	// Everything must be true, so that no request deletes by mistake.
	Everything bool `json:"everything"`
	Settings   bool `json:"settings"` // also reset all but the API key and allowed hosts
	Models     bool `json:"models"`   // also move models in Headroom's folders to the Trash
}

func (a *API) storedRoutes() []Route {
	return []Route{
		route("GET /control/stored",
			"Lists what Headroom has stored on this computer, and where.", "",
			func(*http.Request, nothing) (stored.List, error) { return a.stored.Stored(), nil }),
		route("POST /control/stored/delete",
			"Deletes all chats, the cache, unfinished jobs and the log, while the server runs. "+
				"Requests are cancelled, and the model is loaded again afterwards.",
			`{"everything": true, "settings": false, "models": false}`,
			func(r *http.Request, q DeleteStored) (stored.Deleted, error) {
				if !q.Everything {
					return stored.Deleted{}, problem.New(problem.BadRequest,
						"Nothing was deleted", "everything is not true",
						`Send {"everything": true}.`)
				}
				// A client that leaves does not stop it halfway.
				return a.stored.DeleteStored(context.WithoutCancel(r.Context()),
					stored.Choice{Settings: q.Settings, Models: q.Models})
			}),
	}
}

package control

// Updates of Headroom over HTTP. A download goes on in the background: ask for the status again.
// The update is applied when Headroom quits.

import (
	"context"
	"net/http"

	"headroom/app/host"
	"headroom/app/update"
)

// Updates keeps this installation up to date. *update.Updater implements it.
type Updates interface {
	Status() update.Status
	Check(context.Context) error
	Download() error
	Cancel() error
	Back() error
}

// UpdateStatus is the response of all routes about updates.
type UpdateStatus struct {
	update.Status
	Error *Error `json:"error"` // why the last check or download failed; null if it did not
}

func (a *API) updateRoutes() []Route {
	status := func() (UpdateStatus, error) {
		s := a.updates.Status()
		return UpdateStatus{s, host.NewError(s.Err)}, nil
	}
	do := func(pattern, summary string, work func(context.Context) error) Route {
		return route(pattern, summary, "",
			func(r *http.Request, _ nothing) (UpdateStatus, error) {
				if err := work(r.Context()); err != nil {
					return UpdateStatus{}, err
				}
				return status()
			})
	}
	quick := func(work func() error) func(context.Context) error {
		return func(context.Context) error { return work() }
	}
	return []Route{
		route("GET /control/update", "Returns what is known about updates of Headroom.", "",
			func(*http.Request, nothing) (UpdateStatus, error) { return status() }),
		do("POST /control/update/check", "Reads the update feed of the settings.",
			a.updates.Check),
		do("POST /control/update/download", "Downloads and verifies the available version. It is "+
			"applied when Headroom quits.", quick(a.updates.Download)),
		do("POST /control/update/cancel", "Stops the download, or drops the version that is "+
			"ready, or forgets about going back.", quick(a.updates.Cancel)),
		do("POST /control/update/back", "Restores the version before when Headroom quits.",
			quick(a.updates.Back)),
	}
}

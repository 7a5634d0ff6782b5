package control

// Memory over HTTP: what a model would take, opened otherwise, and how much the GPU of a Mac may
// hold.

import (
	"net/http"
	"strconv"

	"headroom/app/host"
	"headroom/app/wired"
	"headroom/engine/problem"
)

// mostStreams is more than anybody runs at once; what is planned for them is allocated for each.
const mostStreams = 256

func (a *API) memoryRoutes() []Route {
	return []Route{
		route("GET /api/memory/what-if",
			"What a model would need with another context, more streams, or another form of keys "+
				"and values.", "",
			func(r *http.Request, _ nothing) (host.WhatIf, error) { return a.whatIf(r) }).
			with(Query{"model", "A model's ID; none: the one that runs."},
				Query{"context", "Tokens of each stream."},
				Query{"streams", "That run at once, 1 to 256."}),
		route("GET /api/memory/wired",
			"How much the GPU may hold in place, what is safe, and the commands that would change "+
				"it.", "",
			func(r *http.Request, _ nothing) (wired.Status, error) {
				limitBytes, err := limitOf(r)
				if err != nil {
					return wired.Status{}, err
				}
				return a.wired.Status(limitBytes)
			}).with(Query{"limit", "Bytes that the commands are for; none: what is safe."}),
		route("POST /api/memory/wired",
			"Changes it, once the system's own dialog was given an administrator's password.",
			`{"action": "once"}`,
			func(r *http.Request, q WiredRequest) (wired.Status, error) {
				return a.wired.Change(r.Context(), q.Action, q.LimitBytes)
			}),
	}
}

func (a *API) whatIf(r *http.Request) (host.WhatIf, error) {
	q := host.WhatIfQuery{Model: r.URL.Query().Get("model")}
	var err error
	if q.ContextTokens, err = contextOf(r); err == nil {
		q.Streams, err = streamsOf(r)
	}
	if err != nil {
		return host.WhatIf{}, err
	}
	return a.host.WhatIf(q)
}

// WiredRequest is the body of POST /api/memory/wired. LimitBytes 0 is what is safe; to undo takes
// none.
type WiredRequest struct {
	Action     wired.Action `json:"action"`
	LimitBytes int64        `json:"limitBytes"`
}

// limitOf reads ?limit=, 0 without it.
func limitOf(r *http.Request) (limitBytes int64, err error) {
	if text := r.URL.Query().Get("limit"); text != "" {
		if limitBytes, err = strconv.ParseInt(text, 10, 64); err != nil || limitBytes < 0 {
			return 0, problem.New(problem.BadRequest, "The limit cannot be "+strconv.Quote(text),
				"it is a number of bytes", "Send ?limit=34359738368, or none.")
		}
	}
	return limitBytes, nil
}

// streamsOf reads ?streams=, 0 without it.
func streamsOf(r *http.Request) (streams int, err error) {
	if text := r.URL.Query().Get("streams"); text != "" {
		if streams, err = strconv.Atoi(text); err != nil || streams < 1 || streams > mostStreams {
			return 0, problem.New(problem.BadRequest,
				"There cannot be "+strconv.Quote(text)+" streams", "it is a number from 1 to 256",
				"Send ?streams=4, or none.")
		}
	}
	return streams, nil
}

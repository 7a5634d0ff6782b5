package control

// Memory over HTTP: how much a model would need with other options, and the wired memory limit of a
// Mac's GPU.

import (
	"net/http"
	"strconv"

	"headroom/app/host"
	"headroom/app/wired"
	"headroom/engine/problem"
)

// MaxSequences is the largest number of requests that run at once, because memory is reserved for
// each of them.
const MaxSequences = 256

func (a *API) memoryRoutes() []Route {
	return []Route{
		route("GET /control/memory/what-if",
			"Computes how much memory a model would need with another context length or number of "+
				"streams, in each KV cache format. Without them it is the need in the list of "+
				"models.", "",
			func(r *http.Request, _ nothing) (host.WhatIf, error) { return a.whatIf(r) }).
			withQueries(Query{"model", "A model's ID. Default: the loaded model."},
				Query{"context", "The context length of each stream, in tokens."},
				Query{"streams", "How many streams run at once, 1 to 256."}),
		route("GET /control/memory/wired",
			"Returns the wired memory limit of the GPU, a safe limit, and the commands that would "+
				"set it.", "",
			func(r *http.Request, _ nothing) (wired.Status, error) {
				limitBytes, err := limitParameter(r)
				if err != nil {
					return wired.Status{}, err
				}
				return a.wired.Status(limitBytes)
			}).
			withQueries(Query{"limit",
				"The limit in bytes that the commands set. Default: the safe limit."}),
		route("POST /control/memory/wired",
			"Changes the wired memory limit. macOS asks for an administrator's password.",
			`{"action": "set"}`,
			func(r *http.Request, q WiredRequest) (wired.Status, error) {
				return a.wired.Change(r.Context(), q.Action, q.LimitBytes)
			}),
	}
}

func (a *API) whatIf(r *http.Request) (host.WhatIf, error) {
	q := host.WhatIfQuery{Model: r.URL.Query().Get("model")}
	var err error
	if q.ContextTokens, err = contextParameter(r); err == nil {
		q.Streams, err = streamsParameter(r)
	}
	if err != nil {
		return host.WhatIf{}, err
	}
	return a.host.WhatIf(q)
}

// WiredRequest is the body of POST /control/memory/wired. A LimitBytes of 0 means the safe limit.
// The action reset ignores it.
type WiredRequest struct {
	Action     wired.Action `json:"action"`
	LimitBytes int64        `json:"limitBytes"`
}

// limitParameter returns the query parameter limit, or 0 without one. The error is a Problem.
func limitParameter(r *http.Request) (limitBytes int64, err error) {
	if text := r.URL.Query().Get("limit"); text != "" {
		if limitBytes, err = strconv.ParseInt(text, 10, 64); err != nil || limitBytes < 0 {
			return 0, problem.New(problem.BadRequest, strconv.Quote(text)+" is not a valid limit",
				"the limit is a number of bytes", "Send ?limit=34359738368, or leave it out.")
		}
	}
	return limitBytes, nil
}

// streamsParameter returns the query parameter streams, or 0 without one. The error is a Problem.
func streamsParameter(r *http.Request) (streams int, err error) {
	if text := r.URL.Query().Get("streams"); text != "" {
		if streams, err = strconv.Atoi(text); err != nil || streams < 1 || streams > MaxSequences {
			return 0, problem.New(problem.BadRequest,
				strconv.Quote(text)+" is not a valid number of streams", "it must be 1 to 256",
				"Send ?streams=4, or leave it out.")
		}
	}
	return streams, nil
}

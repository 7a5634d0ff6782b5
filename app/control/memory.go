package control

// Memory over HTTP: what a model would take, opened otherwise.

import (
	"net/http"
	"strconv"

	"headroom/app/host"
	"headroom/engine/problem"
)

// mostStreams is more than anybody runs at once; what is planned for them is allocated for each.
const mostStreams = 256

func (a *API) memoryRoutes() []Route {
	return []Route{
		route("GET /api/memory/what-if", "What a model would need with another context, more streams, or another form of keys and values.", "",
			func(r *http.Request, _ nothing) (host.WhatIf, error) { return a.whatIf(r) }).
			with(Query{"model", "A model's ID; none: the one that runs."}, Query{"context", "Tokens of each stream."}, Query{"streams", "That run at once, 1 to 256."}),
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

// streamsOf reads ?streams=, 0 without it.
func streamsOf(r *http.Request) (streams int, err error) {
	if text := r.URL.Query().Get("streams"); text != "" {
		if streams, err = strconv.Atoi(text); err != nil || streams < 1 || streams > mostStreams {
			return 0, problem.New(problem.BadRequest, "There cannot be "+strconv.Quote(text)+" streams", "it is a number from 1 to 256", "Send ?streams=4, or none.")
		}
	}
	return streams, nil
}

package ollama

// Routes of Ollama for what Headroom does in another way. Clients get a sentence instead of an
// address that is not there.

import (
	"context"

	"headroom/engine/problem"
	"headroom/engine/server"
)

// refusals has a row for each refused route.
var refusals = []struct{ pattern, what, why, instead string }{
	{"POST /api/push", "Models cannot be uploaded", "Headroom has no registry", ""},
	{"POST /api/create", "Models cannot be created with Ollama's API",
		"a model is a folder with its files",
		"Put the folder into one that Headroom scans, or import it with headroom models import."},
	{"POST /api/copy", "Models cannot be copied with Ollama's API", "",
		"Give the model another name with aliases in its settings."},
}

func refusedRoutes() (routes []server.Route) {
	for _, r := range refusals {
		refusal := problem.New(problem.BadRequest, r.what, r.why, r.instead)
		routes = append(routes, server.Route{Pattern: r.pattern,
			Summary: "Refused: " + r.what + ".", Body: anySchema, Free: true,
			Answer: func(context.Context, []byte, server.Resources) (any, error) {
				return nil, refusal
			}})
	}
	return routes
}

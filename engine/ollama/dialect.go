package ollama

import (
	"net/http"
	"time"

	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Dialect serves Ollama's API.
type Dialect struct{}

// Routes returns the routes of the dialect.
func (Dialect) Routes() []server.Route {
	routes := []server.Route{
		{Pattern: "POST /api/chat", Parse: parseChatCall},
		{Pattern: "POST /api/generate", Parse: parseGenerateCall},
		{Pattern: "POST /api/embed", Answer: embed},
		{Pattern: "POST /api/embeddings", Answer: embeddings},
		{Pattern: "GET /api/tags", Document: listModels},
		{Pattern: "GET /api/ps", Document: listLoaded},
		{Pattern: "POST /api/show", Answer: showModel},
		{Pattern: "POST /api/pull", Follow: pullModel},
		{Pattern: "GET /api/version", Document: version},
	}
	return append(routes, refusedRoutes()...)
}

func parseChatCall(body []byte) (*server.Call, error) {
	q, err := ParseChat(body)
	if err != nil {
		return nil, err
	}
	return q.call(false), nil
}

func parseGenerateCall(body []byte) (*server.Call, error) {
	q, err := ParseGenerate(body)
	if err != nil {
		return nil, err
	}
	return q.call(true), nil
}

// call returns the call of a request. generates says that the answer is one of /api/generate.
func (q *Request) call(generates bool) *server.Call {
	started := time.Now()
	c := &server.Call{ID: generate.NewID("ollama-"), Request: q.Request, KeepAlive: q.KeepAlive,
		Framing: server.JSONLines,
		Renderer: func(h generate.Head) server.Renderer {
			return newRenderer(h, q, generates, started)
		}}
	if q.Load {
		c.Loaded = func(id string) any { return newLoaded(q, id, generates) }
	}
	return c
}

// Error renders err as {"error": "..."}.
func (Dialect) Error(err error) server.Event {
	return server.Event{Data: ErrorBody{problem.From(err).Error()}}
}

// version answers GET /api/version.
func version(*http.Request, server.Models) (any, error) {
	return struct {
		Version string `json:"version"`
	}{apiVersion}, nil
}

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
		{Pattern: "POST /api/chat", Summary: "Ollama's chat.", Body: chatSchema,
			Parse: parseChatCall},
		{Pattern: "POST /api/generate", Summary: "Ollama's generate.", Body: generateSchema,
			Parse: parseGenerateCall},
		{Pattern: "POST /api/embed", Summary: "Ollama's embeddings.", Body: embedSchema,
			Answer: embed},
		{Pattern: "POST /api/embeddings", Summary: "Ollama's older embeddings.",
			Body: embeddingsSchema, Answer: embeddings},
		{Pattern: "GET /api/tags", Summary: "The models, for Ollama's clients.",
			Document: listModels},
		{Pattern: "GET /api/ps", Summary: "The loaded models.", Document: listLoaded},
		{Pattern: "POST /api/show", Summary: "One model.", Body: nameSchema, Answer: showModel,
			Free: true},
		{Pattern: "POST /api/pull", Summary: "Downloads a model from Hugging Face.",
			Body: nameSchema, Follow: pullModel, Free: true},
		{Pattern: "DELETE /api/delete", Summary: "Moves a model to the Trash, if that is allowed.",
			Body: nameSchema, Answer: deleteModel, Free: true},
		{Pattern: "GET /api/version", Summary: "The version of Ollama whose API this is.",
			Document: version},
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
		},
		Waiting: func() []server.Event {
			return newRenderer(generate.Head{}, q, generates, started).Ping()
		}}
	if q.Load {
		c.Loaded = func(id string, unloaded bool) any {
			return newLoaded(q, id, unloaded, generates)
		}
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

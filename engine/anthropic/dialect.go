package anthropic

import (
	"context"
	"net/http"

	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Dialect serves Anthropic's messages. The list of models is that of engine/openai, whose entries
// have the fields of both APIs.
type Dialect struct{}

// Routes returns the routes of the dialect.
func (Dialect) Routes() []server.Route {
	return []server.Route{
		{Pattern: "POST /v1/messages", Alias: "POST /messages", Summary: "Anthropic's Messages.",
			Body: messageSchema, Parse: parseCall},
		{Pattern: "POST /v1/messages/count_tokens", Alias: "POST /messages/count_tokens",
			Summary: "The number of tokens of a prompt.", Body: countSchema,
			Answer: countTokens},
	}
}

func parseCall(body []byte) (*server.Call, error) {
	q, err := Parse(body)
	if err != nil {
		return nil, err
	}
	return &server.Call{ID: generate.NewID("msg_"), Request: q.Request, OneCall: q.OneCall,
		Renderer: func(h generate.Head) server.Renderer { return newRenderer(h, q) },
		Waiting:  func() []server.Event { return newRenderer(generate.Head{}, q).Ping() }}, nil
}

// countTokens answers with the number of tokens of a prompt, which may be longer than the context.
func countTokens(ctx context.Context, body []byte, with server.Resources) (any, error) {
	q, err := ParseCount(body)
	if err != nil {
		return nil, err
	}
	id, texts, err := with.Texts(ctx, q.Model)
	if err != nil {
		return nil, err
	}
	q.SetDefaults(with.Defaults(id))
	prompt, _, err := q.Encode(ctx, texts, 0)
	if err != nil {
		return nil, err
	}
	return TokenCount{len(prompt)}, nil
}

// Error renders err as {"type": "error", "error": {...}}.
func (Dialect) Error(err error) server.Event {
	p := problem.From(err)
	status := server.StatusOf(p)
	if overloaded(p) {
		status = statusOverloaded
	}
	return server.Event{Name: "error", Status: status, Data: ErrorBody{Type: "error",
		Error: ErrorDetail{errorType(status), message(p)}, RequestID: server.RequestID(err)}}
}

// Recognizes implements server.Recognizer: Anthropic's clients name the version of its API, also
// when they ask for models.
func (Dialect) Recognizes(header http.Header) bool { return header.Get("Anthropic-Version") != "" }

// statusOverloaded is Anthropic's status for overloaded_error. Clients try again, and some fall
// back to another model.
const statusOverloaded = 529

// overloaded reports whether the same request is likely to succeed soon.
func overloaded(p *problem.Problem) bool {
	switch p.Code {
	case problem.Overloaded, problem.LowResources, problem.Loading, problem.Crashed,
		problem.Unresponsive, problem.GPUTimeout:
		return true
	}
	return false
}

// errorType returns Anthropic's type of an error with a status.
func errorType(status int) string {
	switch status {
	case statusOverloaded:
		return "overloaded_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestTimeout:
		return "timeout_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// message returns the message of an error. Claude Code compacts a conversation when it reads
// "prompt is too long", and reads both numbers.
func message(p *problem.Problem) string {
	switch {
	case p.Overflow != nil:
		return p.Overflow.Anthropic()
	case p.Code == problem.ContextExceeded:
		return "prompt is too long: " + p.Error()
	}
	return p.Error()
}

package server

import (
	"net/http"

	"headroom/engine/generate"
)

// Dialect is the HTTP API of one vendor: its routes, answers and errors. To add one, write a
// package and list it in Options.Dialects.
//
// Methods are called from many goroutines.
type Dialect interface {
	// Routes returns what the dialect serves. Patterns of two dialects must not collide.
	Routes() []Route
	// Error renders a failure. A refused request gets the Data of the event as its body, under the
	// status of StatusOf; a stream that has begun gets the event. problem.From(err) has the
	// message. A generate.ParamError in the chain of err has the parameter at fault.
	Error(err error) Event
}

// Route is one route of a dialect. One of Parse and Document is set.
type Route struct {
	// Pattern is a method and a path, as http.ServeMux reads them: "POST /v1/chat/completions".
	Pattern string
	// Parse reads the body of a request for a generation. The server does the rest.
	Parse func(body []byte) (*Call, error)
	// Document returns the JSON document that answers any other request.
	Document func(r *http.Request, models Models) (any, error)
}

// Call is a parsed request for a generation, and how its answer is rendered.
type Call struct {
	generate.Request
	ID      string // identifies the request in logs and answers; "": a random ID
	Framing Framing
	// Renderer returns the renderer of this answer.
	Renderer func(generate.Head) Renderer
}

// Renderer renders one answer in a dialect's JSON. It is used by one goroutine: either Whole is
// called, once, or Start, Delta any number of times, and Finish. A failed stream ends with
// Dialect.Error instead of Finish.
type Renderer interface {
	// Whole returns the document of a complete answer.
	Whole(generate.Answer) any
	// Start returns the events that open a stream, before the first token.
	Start() []Event
	// Delta returns the events for the addition of one step.
	Delta(generate.Delta) []Event
	// Finish returns the events that complete a stream.
	Finish(generate.FinishReason, generate.Usage) []Event
}

// Event is one message of a stream.
type Event struct {
	Name string // of the event in server-sent events; "": unnamed
	Data any    // encoded as JSON, except for Text
}

// Text is the Data of an Event that is sent unencoded, on one line.
type Text string

// Framing is the format that separates the events of a stream.
type Framing uint8

// The framings.
const (
	ServerSentEvents Framing = iota // "data: JSON", with comments as keep-alive
	// one JSON document per line, without comments; Event.Name is unused
	JSONLines
)

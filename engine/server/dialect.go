package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"headroom/engine"
	"headroom/engine/generate"
)

// Dialect is the HTTP API of one vendor: its routes, answers and errors. To add a dialect, write a
// package that implements this interface and list it in Options.Dialects.
//
// Methods are called from many goroutines.
type Dialect interface {
	// Routes returns the routes of the dialect. The patterns of two dialects must not conflict.
	Routes() []Route
	// Error renders an error. If no answer has begun, the server sends the Data of the event as the
	// body, with its Status. In a stream that has begun, it sends the event. problem.From(err) has
	// the message, and RequestID(err) the ID of the request. If the chain of err contains a
	// generate.ParamError, that names the invalid parameter.
	Error(err error) Event
}

// Recognizer is a Dialect that recognizes the requests of its clients at addresses of another one,
// such as GET /v1/models. It renders the errors of those that get a document.
type Recognizer interface {
	Dialect
	Recognizes(header http.Header) bool
}

// Route is one route of a dialect. One of Parse, Document, Answer, Follow and Handle must be set.
type Route struct {
	// Pattern is a method and a path, as http.ServeMux reads them: "POST /v1/chat/completions".
	Pattern string
	// Alias is another pattern of the route, for clients whose base URL lacks "/v1"; "": none.
	Alias string
	// Summary says what the route does, for GET /openapi.json.
	Summary string
	// Body returns the JSON schema of the body of a request, for GET /openapi.json. nil: a request
	// has no body.
	Body func() map[string]any
	// Parse parses the body of a request for a generation. The server does the rest.
	Parse func(body []byte) (*Call, error)
	// Whole says that no answer to Parse's requests is a stream.
	Whole bool
	// Document returns the JSON document that answers a request of any other kind.
	Document func(r *http.Request, models Models) (any, error)
	// Answer returns the JSON document that answers a request with a body, other than for a
	// generation. Nothing of the body is logged.
	Answer func(ctx context.Context, body []byte, with Resources) (any, error)
	// Follow parses the body of a request for work that a client follows, such as a download. The
	// answer has a line of JSON for each step.
	Follow func(body []byte) (Work, error)
	// Handle answers a request whose body or answer is a file. The body is read as it comes, and
	// has no limit but that of its rate. An error is answered like that of a Document, if nothing
	// was written before.
	Handle func(w http.ResponseWriter, r *http.Request) error
	// Free says that requests use no model, so that they do not count for a named key. Those of a
	// Document are always free.
	Free bool
}

// Resources are what the answer to a request may need.
type Resources struct {
	Models   Models
	Defaults func(modelID string) generate.Defaults // see Options.Defaults

	pull     pullFunc   // see Options.Pull
	delete   deleteFunc // see Options.Delete
	priority int        // of the request
	record   *record
	count    func(engine.Usage) // counts prompt tokens in the metrics

	vectorRequests *atomic.Int64 // of the server; see Embed
}

// Texts returns the tokenizer and the chat template of the model that a request names, and its ID.
// It loads the model only if Models does not know them without. Errors are Problems.
func (r Resources) Texts(ctx context.Context, name string) (id string, m generate.Model,
	err error) {
	if models, ok := r.Models.(TextModels); ok {
		return models.Texts(name)
	}
	model, err := r.Wake(ctx, name)
	return model.ID, model.Engine, err
}

// Wake returns the model that a request names and keeps it loaded until ctx ends. Errors are
// Problems, or the error of ctx.
func (r Resources) Wake(ctx context.Context, name string) (Model, error) {
	model, err := r.Models.Wake(ctx, name)
	if err == nil && model.Release != nil {
		context.AfterFunc(ctx, func() { model.Release(nil) })
	}
	return model, err
}

// Call is a parsed request for a generation, with the means to render its answer.
type Call struct {
	generate.Request
	ID      string // identifies the request in logs and answers; "": a random ID
	Framing Framing
	// KeepAlive is how long the model stays loaded after the answer; see Model.Release.
	KeepAlive *time.Duration
	// Loaded, if it is not nil, makes the call load its model and generate nothing. With a
	// KeepAlive of 0 the model is unloaded instead, unless other requests use it or a person has
	// pinned it. Loaded returns the document of the answer; unloaded says what has become of the
	// model. The ID is "" for one that was not loaded and shall not be.
	Loaded func(modelID string, unloaded bool) any
	// Waiting returns events that keep a stream alive while the request waits for its model. They
	// come before those of the Renderer. nil: comments do, if the framing has them.
	Waiting func() []Event
	// More are further plain prompts, each of which has an answer of its own. If there are any, the
	// Renderer must be a ChoicesRenderer.
	More []generate.Prompt
	// Reads, if it is not nil, makes the call read log-probabilities, with which it has an answer
	// for each Read, and generate nothing. It returns at least one. r is the Request of the call,
	// with the defaults of the model. The Renderer must be a ChoicesRenderer, and is never asked
	// for a stream.
	Reads func(ctx context.Context, r *generate.Request, m generate.Model,
		contextTokens int) ([]generate.Read, error)
	// N is the number of answers to each prompt; 0: 1. With more than one, the Renderer must be a
	// ChoicesRenderer. The answers to a prompt follow one another. If there is a seed, it is that
	// of the first answer to a prompt, and each other one has the next seed.
	N int
	// OneCall ends an answer with its first tool call.
	OneCall bool
	// Renderer returns the Renderer for the answer.
	Renderer func(generate.Head) Renderer
	// Begun is called once, before anything else, with the name of the request's API key, or "" if
	// it has none. It may be nil.
	Begun func(key string)
	// Cancellable gets a function that cancels the generation, which then fails. It may be called
	// at any time. nil: only the client cancels it, by disconnecting.
	Cancellable func(cancel func())
	// Ended is called once, when the request has ended in whatever way. It may be nil.
	Ended func()
}

// Renderer renders one answer in a dialect's JSON. It is used by one goroutine. For a whole answer,
// Whole is called once. For a stream, Start is called once, then Delta any number of times, then
// Finish. If a stream fails, Dialect.Error is called instead of Finish.
type Renderer interface {
	// Whole returns the document of a complete answer.
	Whole(generate.Answer) any
	// Start returns the events that open a stream, before the first token.
	Start() []Event
	// Delta returns the events for new text, reasoning or tool calls.
	Delta(generate.Delta) []Event
	// Finish returns the events that complete a stream.
	Finish(generate.FinishReason, generate.Usage) []Event
}

// PromptRenderer is a Renderer of streams that begin with the number of tokens of the prompt.
type PromptRenderer interface {
	Renderer
	// Prompt is called before Start. usage has the tokens of the prompt, and how many of them are
	// cached if the engine has looked.
	Prompt(usage generate.Usage)
}

// Pinger is a Renderer that keeps a stream alive with events of its own instead of comments. They
// are sent after pingEvery without output.
type Pinger interface {
	Renderer
	Ping() []Event
}

// StopRenderer is a Renderer of streams that wants to know which stop text has ended an answer.
type StopRenderer interface {
	Renderer
	// Stopped is called before Finish, or before Next, if a stop text has ended a chat's answer.
	Stopped(text string)
}

// FailRenderer is a Renderer of streams that end with events of their own if they fail.
type FailRenderer interface {
	Renderer
	// Fail returns the events instead of that of Dialect.Error. Start may not have been called.
	Fail(error) []Event
}

// ChoicesRenderer is a Renderer that can render several answers, in the order of the prompts. In a
// stream, Delta and Finish are about the current answer, at first the one with number 0.
type ChoicesRenderer interface {
	Renderer
	// WholeChoices returns the document of all complete answers. Their usage is that of all.
	WholeChoices(answers []generate.Answer, all generate.Usage) any
	// Next returns the events that complete the current answer. The next one becomes the current.
	Next(generate.FinishReason) []Event
}

// Event is one message of a stream.
type Event struct {
	Name string // the event's name in server-sent events; "": none
	Data any    // encoded as JSON, unless it is of type Text
	// Status is the HTTP status of an error before which no answer has begun; 0: that of StatusOf.
	Status int
}

// Text is the Data of an Event that is sent as it is, not as JSON. It must be one line.
type Text string

// Framing is the format that separates the events of a stream.
type Framing uint8

// The framings.
const (
	// ServerSentEvents sends an event as "data: JSON", and comments to keep the connection alive.
	ServerSentEvents Framing = iota
	// JSONLines sends one JSON document per line, and no comments. Event.Name is ignored.
	JSONLines
)

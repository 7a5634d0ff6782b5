// Package server is the OpenAI-compatible endpoint over HTTP.
//
//	POST /v1/chat/completions   chat.go         GET /v1/models[/id]   models.go
//	POST /v1/completions        completions.go  GET /health           models.go
//	                                            GET /metrics          metrics.go
//
// A request's path: Handler puts on logging and recovery (middleware.go) and asks the Guard whether
// caller and key may come in (guard.go); the handler parses the body (engine/openai), gets the
// running model from Models, and starts an answer (answer.go), which reads the engine's events
// until the end and hands them to a writer: one JSON document (whole.go) or server-sent events
// (sse.go, stream.go). Every refusal goes through the table in errors.go.
//
// Invariants: no request ends the process; a client that goes away stops its work at once; what has
// been refused says why. The package sees the engine through the interfaces below, so that tests
// drive it with a scripted one.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/openai"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// Models is where the server finds what runs. The app's host implements it.
type Models interface {
	// Acquire returns the running model of that ID; "" means whichever runs. Errors are Problems:
	// model_not_found, with the IDs there are, not_running, loading.
	Acquire(id string) (Model, error)
	// Wake is Acquire for a request: a model that was unloaded because nobody used it is loaded
	// again first. It gives up when ctx ends.
	Wake(ctx context.Context, id string) (Model, error)
	// List returns the models that a request may name, the running one first.
	List() []ModelInfo
}

// Model is a running model under its name.
type Model struct {
	ID     string
	Engine Engine
}

// ModelInfo is an entry of /v1/models.
type ModelInfo struct {
	ID            string
	ContextTokens int // 0: unknown
}

// Engine is a loaded model. *engine.Engine implements it, and so does a model in another process.
type Engine interface {
	Info() engine.Info
	Tokenizer() *tokenizer.Tokenizer
	Template() *chat.Template // nil: none
	Defaults() sample.Defaults
	Submit(engine.Request) (*engine.Stream, error)
	Stats() engine.Stats
}

// Options configure a Server. The zero value of each field but Models works.
type Options struct {
	Models Models
	Guard  *Guard // nil: loopback names only, no key
	// Defaults are what requests for the model of that ID get where they do not say, before what
	// its authors recommend; asked for each request. nil: none.
	Defaults func(modelID string) openai.Defaults
	Log      *slog.Logger // nil: slog.Default()

	MaxBodyBytes int64         // 0: 32 MiB, several times the longest context as JSON
	KeepAlive    time.Duration // of silence, until a stream gets a comment; 0: a second
	WriteTimeout time.Duration // for one write to a client that does not read; 0: a minute
}

// Server answers requests; it is an http.Handler without state of its own beyond the metrics.
type Server struct {
	models       Models
	guard        *Guard
	defaults     func(modelID string) openai.Defaults
	log          *slog.Logger
	metrics      *metrics
	maxBodyBytes int64
	keepAlive    time.Duration
	writeTimeout time.Duration
	handler      http.Handler
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{models: o.Models, guard: o.Guard, defaults: o.Defaults, log: o.Log,
		metrics:      newMetrics(o.Models),
		maxBodyBytes: o.MaxBodyBytes, keepAlive: o.KeepAlive, writeTimeout: o.WriteTimeout}
	if s.guard == nil {
		s.guard = &Guard{}
	}
	if s.defaults == nil {
		s.defaults = func(string) openai.Defaults { return openai.Defaults{} }
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.maxBodyBytes == 0 {
		s.maxBodyBytes = 32 << 20
	}
	if s.keepAlive == 0 {
		s.keepAlive = time.Second
	}
	if s.writeTimeout == 0 {
		s.writeTimeout = time.Minute
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.handleChat)
	mux.HandleFunc("POST /v1/completions", s.handleCompletion)
	mux.HandleFunc("GET /v1/models", s.handleModels)
	mux.HandleFunc("GET /v1/models/{id...}", s.handleModel)
	mux.Handle("GET /metrics", s.metrics.handler())
	mux.HandleFunc("/", s.handleUnknown)

	open := http.NewServeMux() // what needs no key
	open.HandleFunc("GET /health", s.handleHealth)
	open.Handle("/", s.guard.Key(mux))
	s.handler = s.observe(Recover(s.log, s.guard.Origin(s.guard.CORS(open))))
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

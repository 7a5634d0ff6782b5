// Package server serves a loaded model over HTTP, in the API dialects that Options.Dialects lists.
//
// It does what all dialects share: access control (engine/guard), logging and recovery
// (middleware.go), bodies and limits (handle.go), reading the engine's events (answer.go), whole
// and streamed answers (whole.go, stream.go, framing.go), the status of errors (errors.go), GET
// /health (health.go) and GET /metrics (metrics.go). A dialect (dialect.go) parses requests into
// generate.Request and renders answers; engine/openai is the first.
//
// The path of a request: observe logs it, Recover answers its panics, the Guard checks host, origin
// and key. prepare then reads and parses the body, wakes the model, and encodes the prompt.
// generate submits it to the engine and runs an answer, which passes the engine's events to an
// output.
//
// Invariants: No request ends the process. A disconnect cancels the engine's work immediately.
// Every refusal gives a reason. The package uses the engine through the interfaces below, so that
// tests can replace it with a scripted one.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// Models finds loaded models. The app's host implements it.
type Models interface {
	// Acquire returns the loaded model of that ID; "" means the one that is loaded. Errors are
	// Problems: model_not_found, with the IDs of the models that exist, not_running, loading.
	Acquire(id string) (Model, error)
	// Wake is Acquire for a generation. It first reloads a model that was unloaded when idle. It
	// stops waiting when ctx ends.
	Wake(ctx context.Context, id string) (Model, error)
	// List returns the models that a request may name, the loaded one first.
	List() []ModelInfo
}

// Model is a loaded model and its ID.
type Model struct {
	ID     string
	Engine Engine
}

// ModelInfo is an entry in a dialect's list of models.
type ModelInfo struct {
	ID            string
	ContextTokens int // 0: unknown
}

// Engine is a loaded model. *engine.Engine implements it, and so does a model in another process.
type Engine interface {
	Info() engine.Info
	Tokenizer() *tokenizer.Tokenizer
	Template() *chat.Template // nil if the model has none
	Defaults() sample.Defaults
	Submit(engine.Request) (*engine.Stream, error)
	Stats() engine.Stats
}

// Options configure a Server. Models and Dialects are required; the zero value of the other fields
// works.
type Options struct {
	Models Models
	// Dialects are the APIs to serve. The first also renders the errors of unknown addresses.
	Dialects []Dialect
	Guard    *guard.Guard // nil: loopback names only, no key
	// Defaults returns the parameters that the user has set for the model of that ID. It is called
	// for each request; nil: none are set.
	Defaults func(modelID string) generate.Defaults
	Log      *slog.Logger // nil: slog.Default()

	MaxBodyBytes int64 // 0: 32 MiB, several times the longest context as JSON
	// KeepAlive is the time without output after which a stream gets a comment. 0: 1 s.
	KeepAlive time.Duration
	// WriteTimeout bounds one write to a client that does not read. 0: 1 min.
	WriteTimeout time.Duration
}

// Server is an http.Handler without state beyond its metrics.
type Server struct {
	models       Models
	dialects     []Dialect
	defaults     func(modelID string) generate.Defaults
	log          *slog.Logger
	metrics      *metrics
	maxBodyBytes int64
	keepAlive    time.Duration
	writeTimeout time.Duration
	routes       *http.ServeMux
	byPattern    map[string]Dialect
	handler      http.Handler
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{models: o.Models, dialects: o.Dialects, defaults: o.Defaults, log: o.Log,
		metrics: newMetrics(o.Models), maxBodyBytes: o.MaxBodyBytes, keepAlive: o.KeepAlive,
		writeTimeout: o.WriteTimeout, routes: http.NewServeMux(), byPattern: map[string]Dialect{}}
	access := o.Guard
	if access == nil {
		access = &guard.Guard{}
	}
	if s.defaults == nil {
		s.defaults = func(string) generate.Defaults { return generate.Defaults{} }
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
	for _, d := range s.dialects {
		for _, route := range d.Routes() {
			s.routes.HandleFunc(route.Pattern, s.handle(d, route))
			s.byPattern[route.Pattern] = d
		}
	}
	s.routes.Handle("GET /metrics", s.metrics.handler())
	s.routes.HandleFunc("/", s.handleUnknown)

	open := http.NewServeMux() // the routes that need no key
	open.HandleFunc("GET /health", s.handleHealth)
	open.Handle("/", access.Key(s.refuse, s.routes))
	s.handler = s.observe(
		Recover(s.log, s.renderError, access.Origin(s.refuse, access.CORS(open))))
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// refuse answers a request with an error, before anything else is written.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	Refuse(s.renderError)(w, r, err)
}

// renderError renders an error in the dialect of the request's route, else in the first one.
func (s *Server) renderError(r *http.Request, err error) Event {
	_, pattern := s.routes.Handler(r)
	if d, ok := s.byPattern[pattern]; ok {
		return d.Error(err)
	}
	return s.dialects[0].Error(err)
}

// Package server serves loaded models over HTTP, in the API dialects that Options.Dialects lists.
//
// A dialect (dialect.go), such as engine/openai, parses requests into a generate.Request and
// renders answers. The server does the work that all dialects share:
//
//	engine/guard                       access control
//	dialect.go                         what a dialect implements
//	middleware.go                      logging, counting, recovery from panics
//	handle.go                          submitting to the engine
//	callers.go                         what named keys may do
//	clientname.go                      the name of the program that sends a request
//	limits.go, connections.go, pace.go connections and deadlines
//	descriptors_*.go                   how many files may be open
//	body.go                            size and memory of bodies
//	collector.go                       the garbage collector while bodies take much memory
//	spare.go                           processor time for batches
//	choices.go                         several answers to one request
//	answer.go                          the engine's events
//	echo.go                            the prompt with which an answer begins
//	vectors.go                         vectors and scores
//	whole.go, stream.go, framing.go    whole and streamed answers
//	document.go                        answers that are one document
//	elsewhere.go                       requests that other machines answer
//	serving.go                         how a request waits for its model and holds it
//	move.go                            requests that outlive the model's process
//	follow.go                          work that a client follows, such as a download
//	stall.go                           clients that do not read
//	errors.go                          status codes and Retry-After
//	health.go, metrics.go              GET /health, GET /ready and GET /metrics
//	openapi.go                         GET /openapi.json
//	serve.go                           listening and shutdown
//
// A request first passes observe, which logs it, Recover, which handles panics, and the Guard,
// which checks host, origin and key. Then prepare reads and parses the body, wakes the model and
// encodes the prompt. Finally generate submits the prompt to the engine and runs an answer, which
// passes the engine's events to an output.
//
// No request can end the process. When a client disconnects, its request is cancelled immediately.
// Every error response states a reason. The package accesses the engine through the interfaces
// Models and Engine, so that tests can replace it.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/modelfile"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// Models finds models. The host of the app implements it.
//
// If it loads models by itself, it also implements Wanter.
type Models interface {
	// Acquire returns the model with the given name, which must be loaded. "" means the default
	// model. Errors are Problems with the code model_not_found, not_running or loading. With
	// model_not_found, the Problem lists the IDs of the available models.
	Acquire(id string) (Model, error)
	// Wake returns the same as Acquire, for a generation. It may first load the model. It stops
	// waiting when ctx ends. The caller must release the model.
	Wake(ctx context.Context, id string) (Model, error)
	// List returns the models that a request may name, the loaded ones first. It may wait until
	// Listed.
	List() []ModelInfo
	// Listed reports whether List returns at once, because all folders of models were searched.
	Listed() bool
}

// TextModels is implemented by Models that know the tokenizer and the chat template of models that
// are not loaded.
type TextModels interface {
	// Texts returns them for the model that a request names, with its ID. Errors are Problems, with
	// the codes of Acquire or model_broken.
	Texts(name string) (id string, m generate.Model, err error)
}

// TaskModels is implemented by Models that know what a model is for before they load it.
type TaskModels interface {
	// Task returns the ID of the model that a request names, and what it is for. known is false if
	// there is no such model, or it is not known what it is for.
	Task(name string) (id string, task modelfile.Task, known bool)
}

// Wanter tells GET /health about models that do not run although they should.
type Wanter interface {
	// Wanted returns a Problem while the model that a person has started is being loaded, or if
	// that has failed. first means that no model has run yet.
	Wanted() (first bool, err error)
}

// Model is a loaded model and its ID.
type Model struct {
	ID     string
	Engine Engine
	// Adapter is what the request names beside the model, as ID+NAME; nil: it names none.
	Adapter *engine.Adapter
	// Release ends the use of a model that Wake has returned; until then it stays loaded.
	// keepAlive is how long the model stays loaded without further requests: 0 unloads it at once,
	// a negative time keeps it until it is stopped, and nil means as long as an earlier request has
	// said since it was loaded, or else the settings.
	// Release may be nil.
	Release func(keepAlive *time.Duration)
}

// Name returns the name by which requests mean the model with its adapter.
func (m Model) Name() string {
	if m.Adapter == nil {
		return m.ID
	}
	return m.ID + AdapterSign + m.Adapter.Name
}

// AdapterSign is between the name of a model and that of its adapter in a request.
const AdapterSign = "+"

// CutAdapter cuts a name at its last AdapterSign. ok is false if it has none.
func CutAdapter(name string) (model, adapter string, ok bool) {
	at := strings.LastIndex(name, AdapterSign)
	if at < 0 {
		return name, "", false
	}
	return name[:at], name[at+len(AdapterSign):], true
}

// ModelState says whether a model is loaded.
type ModelState string

// The states of models.
const (
	Loaded   ModelState = "loaded"
	Loading  ModelState = "loading"
	Unloaded ModelState = "unloaded"
)

// ModelInfo is an entry in a dialect's list of models.
type ModelInfo struct {
	ID            string
	Aliases       []string // further names, by which no other model in the list is meant
	State         ModelState
	ContextTokens int    // 0: unknown
	Engine        Engine // nil unless State is Loaded
	// Machines are the names of the other machines that have the model. OnlyElsewhere says that
	// this one does not.
	Machines      []string
	OnlyElsewhere bool
	// Base is the ID of the model if this entry is one of its adapters; "": it is none.
	Base string

	// What else is known of the model. Zero values are unknown.
	Description engine.Description
	UpdatedAt   time.Time // last change of its files
	MemoryBytes int64     // of its engine; 0 unless State is Loaded
	// UnloadAt is when a loaded model is unloaded if no request comes; zero: it is not.
	UnloadAt time.Time
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

// Options configure a Server. Only Models and Dialects are required.
type Options struct {
	Models Models
	// Dialects are the APIs to serve. The first one also renders the errors of unknown addresses.
	Dialects []Dialect
	Guard    *guard.Guard // nil: only loopback host names are allowed, and no key is needed
	// Defaults returns the parameters that the user has set for the model with the given ID. It is
	// called for each request. nil: no parameters are set.
	Defaults func(modelID string) generate.Defaults
	// Pull downloads a model for a client; see Resources.Pull. nil: no model can be downloaded.
	Pull pullFunc
	// Delete deletes a model for a client; see Resources.Delete. nil: no model can be deleted.
	Delete deleteFunc
	// Elsewhere answers requests by the engines of other machines. nil: none does.
	Elsewhere Elsewhere
	Log       *slog.Logger // nil: slog.Default()
	Version   string       // of the program; a part of system_fingerprint

	// MaxBodyBytes limits the body of a request. 0: 16 MiB, three times a context of a million
	// tokens as JSON.
	MaxBodyBytes int64
	// KeepAlive is the time without output after which a comment is sent in a stream. 0: 1 s.
	KeepAlive time.Duration
	// WriteTimeout limits the duration of one write, for clients that do not read. 0: 30 s.
	// While other requests wait for the model, it is 3 s.
	WriteTimeout time.Duration
}

// Server is an http.Handler that answers requests for generations. It has no state except metrics.
type Server struct {
	models       Models
	dialects     []Dialect
	defaults     func(modelID string) generate.Defaults
	log          *slog.Logger
	version      string
	pull         pullFunc
	delete       deleteFunc
	elsewhere    Elsewhere
	metrics      *metrics
	maxBodyBytes int64
	keepAlive    time.Duration
	vectors      atomic.Int64 // requests for vectors that are answered or wait
	spare        *Spare
	writeTimeout time.Duration
	routes       *http.ServeMux
	byPattern    map[string]Dialect
	handler      http.Handler
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{models: o.Models, dialects: o.Dialects, defaults: o.Defaults, log: o.Log,
		version: o.Version, pull: o.Pull, delete: o.Delete, elsewhere: o.Elsewhere,
		spare:   NewSpare(),
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
	setDefault(&s.maxBodyBytes, maxBodyBytes)
	if s.keepAlive == 0 {
		s.keepAlive = time.Second
	}
	setDefault(&s.writeTimeout, writeTimeout)
	for _, d := range s.dialects {
		for _, route := range d.Routes() {
			for _, pattern := range []string{route.Pattern, route.Alias} {
				if pattern != "" {
					s.routes.HandleFunc(pattern, s.handle(d, route))
					s.byPattern[pattern] = d
				}
			}
		}
	}
	s.routes.Handle("GET /metrics", s.metrics.handler())
	s.routes.HandleFunc("GET /openapi.json", s.handleOpenAPI)
	s.routes.HandleFunc("/", s.handleUnknown)

	s.handler = s.observe(access, Recover(s.log, s.renderError, access.Origin(s.refuse,
		access.CORS(s.withHealth(access.Key(s.refuse, noteCaller(s.routes)))))))
	return s
}

// withHealth adds the routes that need no key.
func (s *Server) withHealth(keyed http.Handler) http.Handler {
	open := http.NewServeMux()
	open.HandleFunc("GET /health", s.handleHealth)
	open.HandleFunc("GET /ready", s.handleReady)
	open.Handle("/", keyed)
	return open
}

// Inside answers requests that do not pass Options.Guard: those of this program itself, such as
// those of batches, and of paired machines. The context of a request says whose it is; see
// guard.WithCaller and guard.Background.
func (s *Server) Inside() http.Handler {
	return s.observe(&guard.Guard{}, Recover(s.log, s.renderError,
		s.withHealth(noteCaller(s.routes))))
}

// Refuse answers a request that is not allowed, as the server does. Nothing may have been written
// before. The error is a Problem.
func (s *Server) Refuse(w http.ResponseWriter, r *http.Request, err error) { s.refuse(w, r, err) }

// ownPaths are the paths of the server's own routes. Their method is GET.
var ownPaths = []string{"/health", "/metrics", "/openapi.json", "/ready"}

// Paths returns the paths that the server answers, as http.ServeMux reads them: the routes of the
// dialects, its own, and "/v1" with all below, where unknown addresses get the error of a dialect.
func (s *Server) Paths() []string {
	paths := append([]string{"/v1", "/v1/"}, ownPaths...)
	for pattern := range s.byPattern {
		_, path, _ := strings.Cut(pattern, " ") // without the method: a preflight has another
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, CleanPath(r))
}

// CleanPath returns the request with neither double slashes in its path nor slashes at its end.
// Base URLs often end with a slash, and http.ServeMux would answer with a redirect, which is a GET.
func CleanPath(r *http.Request) *http.Request {
	if p := r.URL.Path; !strings.Contains(p, "//") && (p == "/" || !strings.HasSuffix(p, "/")) {
		return r
	}
	cleaned := *r
	cleaned.URL = new(*r.URL)
	cleaned.URL.Path = cleanSlashes(r.URL.Path)
	if r.URL.RawPath != "" {
		cleaned.URL.RawPath = cleanSlashes(r.URL.RawPath)
	}
	return &cleaned
}

func cleanSlashes(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if path[i] != '/' || b.Len() == 0 || i > 0 && path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	return "/" + strings.Trim(b.String(), "/")
}

// refuse answers a request with an error. Nothing may have been written before.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	Refuse(s.renderError)(w, r, err)
}

// renderError renders an error in the dialect of the request's client, if that is known, or else of
// its path.
func (s *Server) renderError(r *http.Request, err error) Event {
	err = &requestError{err, recordOf(r).request}
	if r.Method == http.MethodGet {
		for _, d := range s.dialects {
			if known, ok := d.(Recognizer); ok && known.Recognizes(r.Header) {
				return d.Error(err)
			}
		}
	}
	for _, method := range append([]string{r.Method}, methods...) {
		if d := s.dialectOf(r, method); d != nil {
			return d.Error(err)
		}
	}
	return s.nearest(r.URL.Path).Error(err)
}

// nearest returns the dialect of an unknown path: the first one of those with a route that has the
// most leading parts in common with it, or else the first one.
func (s *Server) nearest(path string) Dialect {
	best, most := s.dialects[0], 0
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) < 2 {
		return best
	}
	for _, d := range s.dialects {
		for _, route := range d.Routes() {
			for _, pattern := range []string{route.Pattern, route.Alias} {
				_, at, _ := strings.Cut(pattern, " ")
				if n := commonParts(parts, strings.Split(strings.Trim(at, "/"), "/")); n > most {
					best, most = d, n
				}
			}
		}
	}
	return best
}

// commonParts returns how many parts two paths have in common at their beginning.
func commonParts(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// methods are those that routes may have.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodDelete}

// dialectOf returns the dialect of the route for a request's path with another method; nil if there
// is none.
func (s *Server) dialectOf(r *http.Request, method string) Dialect {
	other := *r
	other.Method = method
	_, pattern := s.routes.Handler(&other)
	return s.byPattern[pattern]
}

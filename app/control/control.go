package control

// Three handlers share an address, and each has its own checks. The OpenAI-compatible endpoint
// checks its requests itself. /control/ requires the token and an origin on this machine. The pages
// of the web UI require the origin only.

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"headroom/app/agents"
	"headroom/app/cache"
	"headroom/app/chats"
	"headroom/app/host"
	"headroom/app/keys"
	"headroom/app/logs"
	"headroom/app/machines"
	"headroom/app/settings"
	"headroom/app/wired"
	"headroom/engine"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Host is the part of *host.Host that the API uses.
type Host interface {
	State() host.State
	Start(nameOrDir string) error
	Stop()
	StopModel(name string) error
	Cancel(requestID string) bool
	Finished() host.FinishedList
	Subscribe() (changed <-chan struct{}, done func())

	Models(contextTokens int) host.ModelList
	ModelChanges(after int) (changes []host.ModelChange, last int)
	RescanModels()
	PauseWatching(paused bool) error
	RemoveModel(id, path string) error
	RevealModel(id, path string) error
	// CheckModel reports why a model could not be opened with these options.
	CheckModel(id string, m settings.Model, o engine.Options) error
	DraftModels(id string) ([]string, error)
	// Suggestions and Judge are about models that are not on this machine.
	Suggestions() []host.Suggestion
	Judge(id string, config []byte, weightsBytes int64) (host.Judgement, error)
	// RenewModel is called after the settings of a model have changed.
	RenewModel(id string)
	WhatIf(host.WhatIfQuery) (host.WhatIf, error)

	// Check returns the check of a model against plain decoding that runs or ran last.
	Check(id string) (host.ModelCheck, error)
	StartCheck(id string) error
	StopCheck(id string)

	Conversations() (cache.List, error)
	Conversation(key string) (cache.Detail, error)
	RemoveConversation(key string) (cache.Removed, error)
	ForgetConversation(key string) (cache.Removed, error)
	ForgetAll(model string) cache.Removed
	PinConversation(key string, pinned bool) error
	ClearCache(model string) (cache.Removed, error)
	SetCacheLimits(engine.BlockStoreLimits) error

	// FollowLogLevel passes a changed log level on to the worker process.
	FollowLogLevel()
}

// Options configure an API. Host, Token, Server and ServerPaths are required.
type Options struct {
	Host   Host
	Token  string
	Server http.Handler // the endpoint, which checks its requests itself
	// ServerPaths are the paths that Server answers, from server.Server.Paths.
	ServerPaths []string
	Guard       *guard.Guard // Host and Origin rules; nil: loopback names only
	// Settings is the file behind /control/settings. If it is nil, there is no such route.
	Settings *settings.File
	// CacheFlags holds the cache flags of the command line, which override the settings. Zero
	// fields were not given.
	CacheFlags settings.Cache
	// ReadOnly names the fields of GeneralSettings that the command line sets, or that this program
	// does not take from the settings file.
	ReadOnly []string
	// Login is the login item. If it is nil, this program cannot start at login.
	Login LoginItem
	// Logs holds the lines of /control/logs. If it is nil, there is no such route.
	Logs *logs.Logs
	// ModelFlags holds the model flags of the command line, which override the settings of every
	// model. Zero fields were not given.
	ModelFlags settings.Model
	// ModelOptions returns the options for opening the model with this ID under these settings. If
	// it is nil, model settings are saved without a check.
	ModelOptions func(s settings.Settings, id string) engine.Options
	// Transfers holds imports, downloads, cache moves and trainings. If it is nil, there are no
	// such routes.
	Transfers *Transfers
	// Chats holds the conversations of the Chat page. If it is nil, there are no such routes.
	Chats *chats.Store
	// Keys holds the named API keys. If it is nil, there are no such routes.
	Keys *keys.Store
	// Machines holds the other machines. If it is nil, there are no such routes.
	Machines *machines.Store
	// Router knows the state of the machines, and the requests that they answer. nil: none.
	Router Router
	// Agents sets up coding agents. If it is nil, there are no such routes.
	Agents *agents.Store
	// Stored lists and deletes what is stored. If it is nil, there are no such routes.
	Stored Stored
	// Updates keeps Headroom up to date. If it is nil, there are no such routes.
	Updates Updates
	// Pairing shares this machine with others. If it is nil, there are no such routes.
	Pairing Pairing
	// Wired is the wired memory limit; nil: this machine's.
	Wired *wired.Limit
	// ShowWindow opens the window or brings it to the front. If it is nil, there is no such route.
	ShowWindow func() error
	Log        *slog.Logger // nil: slog.Default()
}

// API serves the control API, the web UI and the endpoint on one address.
type API struct {
	host    Host
	token   string
	log     *slog.Logger
	handler http.Handler

	settings        *settings.File
	cacheFlags      settings.Cache
	showWindow      func() error
	readOnly        []string
	login           LoginItem
	logs            *logs.Logs
	startFolders    []string // ModelFolders when the program started
	startOllamaPort bool     // likewise
	modelFlags      settings.Model
	wired           *wired.Limit
	modelOptions    func(settings.Settings, string) engine.Options
	transfers       *Transfers
	chats           *chats.Store
	keys            *keys.Store
	machines        *machines.Store
	router          Router
	agents          *agents.Store
	needsKey        func() bool // requests to the endpoint need a key
	stored          Stored
	updates         Updates
	pairing         Pairing

	// trainingStart is held from the check that no training runs until one has started.
	trainingStart sync.Mutex

	judged    judged
	closing   chan struct{} // closed by Close: event streams end
	closeOnce sync.Once
	intervals eventIntervals
}

// earlierLimit returns the path of the file that keeps the wired limit from before Headroom's first
// change; "" without settings.
func earlierLimit(s *settings.File) string {
	if s == nil {
		return ""
	}
	return filepath.Join(filepath.Dir(s.Path()), "wired-limit.json")
}

// New returns an API with these options.
func New(o Options) *API {
	a := &API{host: o.Host, token: o.Token, log: o.Log, settings: o.Settings,
		cacheFlags: o.CacheFlags, showWindow: o.ShowWindow,
		modelFlags: o.ModelFlags, modelOptions: o.ModelOptions, wired: o.Wired,
		readOnly: o.ReadOnly, login: o.Login, logs: o.Logs, transfers: o.Transfers, chats: o.Chats,
		stored: o.Stored, keys: o.Keys, machines: o.Machines, router: o.Router,
		agents: o.Agents, updates: o.Updates, pairing: o.Pairing,
		closing: make(chan struct{}), intervals: defaultIntervals}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.wired == nil {
		a.wired = wired.New(wired.Here(), earlierLimit(o.Settings))
	}
	if o.Settings != nil {
		now := o.Settings.Get()
		a.startFolders, a.startOllamaPort = now.ModelFolders, now.OllamaPort
	}
	access := o.Guard
	if access == nil {
		access = &guard.Guard{}
	}
	a.needsKey = access.NeedsKey
	api := http.NewServeMux()
	for _, row := range a.Routes() {
		api.HandleFunc(row.Pattern,
			func(w http.ResponseWriter, r *http.Request) { row.serve(w, r, row) })
	}
	api.HandleFunc("/control/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, problem.New(problem.NotFound, "There is no route "+r.Method+" "+r.URL.Path, "",
			"See GET /control/openapi.json for the routes."))
	})

	mux := http.NewServeMux()
	for _, path := range o.ServerPaths {
		mux.Handle(path, o.Server)
	}
	mux.Handle("/control/", a.guarded(access, a.authorized(api)))
	mux.Handle("/", a.guarded(access, pages(o.Server)))
	a.handler = mux
	return a
}

// guarded wraps a handler with panic recovery and the check of host and origin. Their errors are
// ErrorBody documents, like the handler's.
func (a *API) guarded(access *guard.Guard, next http.Handler) http.Handler {
	render := func(_ *http.Request, err error) server.Event {
		return server.Event{Data: ErrorBody{host.NewError(problem.From(err))}}
	}
	return server.Recover(a.log, render, access.Origin(server.Refuse(render), next))
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.handler.ServeHTTP(w, server.CleanPath(r))
}

// Close ends the event streams. Without it, an open stream would block the shutdown of the server.
func (a *API) Close() { a.closeOnce.Do(func() { close(a.closing) }) }

// HasToken reports whether a request carries the token.
func (a *API) HasToken(r *http.Request) bool { return hasToken(r, a.token) }

// TokenCheck returns a function that reports whether a request carries the token. The server needs
// it before the API exists.
func TokenCheck(token string) func(*http.Request) bool {
	return func(r *http.Request) bool { return hasToken(r, token) }
}

func hasToken(r *http.Request, token string) bool {
	given := r.Header.Get(TokenHeader)
	if given == "" {
		given = r.URL.Query().Get(tokenQuery)
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// authorized wraps a handler with the check of the token.
func (a *API) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.HasToken(r) {
			refuse(w, problem.New(problem.Unauthorized, "This page has no access to Headroom",
				"its token is missing or wrong",
				"Open Headroom from the menu bar, or use the address that headroom serve printed."))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// maxBodyBytes is the longest request body, unless Route.withMaxBody sets another limit.
const maxBodyBytes = 64 << 10

// readBody decodes a JSON request body into q. An empty body leaves q unchanged. strict refuses
// unknown fields. The error is a Problem that quotes example, a valid body.
func readBody(r *http.Request, maxBytes int64, strict bool, q any, example string) error {
	body, err := server.ReadBody(r, maxBytes)
	if err != nil {
		return err
	}
	defer body.Release()
	switch {
	case len(body.Bytes) == 0:
	case strict:
		err = decodeStrictly(body.Bytes, q)
	default:
		err = json.Unmarshal(body.Bytes, q)
	}
	if err != nil {
		return problem.Wrap(problem.BadRequest, settings.InWords(err),
			"The request body is not valid", "Send, for example, "+example+".")
	}
	return nil
}

// decodeStrictly is json.Unmarshal, but refuses unknown fields.
func decodeStrictly(text []byte, q any) error {
	if !json.Valid(text) { // a decoder ignores what follows the value
		return json.Unmarshal(text, q)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(q)
}

// refuse responds with an error.
func refuse(w http.ResponseWriter, err error) {
	p := problem.From(err)
	write(w, server.StatusOf(p), ErrorBody{host.NewError(p)})
}

// write responds with a JSON document.
func write(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic("control: write: " + err.Error()) // a bug: the types are ours
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// eventIntervals are the intervals of an event stream.
type eventIntervals struct {
	busy      time.Duration // shortest time between two states
	idle      time.Duration // time between two states while nothing runs
	heartbeat time.Duration // silence after which a comment is sent
}

var defaultIntervals = eventIntervals{busy: 250 * time.Millisecond, idle: time.Second,
	heartbeat: 10 * time.Second}

var errClosing = errors.New("the server is shutting down")

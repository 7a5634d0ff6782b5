package control

// The routes and who may use them. Three handlers share an address, each behind its own check: the
// endpoint guards itself, /api/ wants the token and an origin of this machine, the pages want the
// origin alone.

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"headroom/app/cache"
	"headroom/app/chats"
	"headroom/app/host"
	"headroom/app/logs"
	"headroom/app/settings"
	"headroom/app/wired"
	"headroom/engine"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Host is what the API needs of *host.Host.
type Host interface {
	State() host.State
	Start(nameOrDir string) error
	Stop()
	Cancel(requestID string) bool
	Finished() host.FinishedList
	Subscribe() (changed <-chan struct{}, done func())

	Models(contextTokens int) host.ModelList
	ModelChanges(after int) (changes []host.ModelChange, last int)
	RescanModels()
	PauseWatching(paused bool) error
	RemoveModel(id, path string) error
	RevealModel(id, path string) error
	// CheckModel tells whether a model could be opened so; RenewModel that its settings have
	// changed.
	CheckModel(id string, o engine.Options) error
	RenewModel(id string)
	WhatIf(host.WhatIfQuery) (host.WhatIf, error)

	Conversations() (cache.List, error)
	Conversation(key string) (cache.Detail, error)
	RemoveConversation(key string) (cache.Removed, error)
	ForgetConversation(key string) (cache.Removed, error)
	ForgetAll(model string) cache.Removed
	PinConversation(key string, pinned bool) error
	ClearCache(model string) (cache.Removed, error)
	SetCacheLimits(engine.BlockStoreLimits) error

	// FollowLogLevel tells whoever logs in another process that the level has changed.
	FollowLogLevel()
}

// Options configure an API. Host, Token and Server are required.
type Options struct {
	Host   Host
	Token  string
	Server http.Handler // the OpenAI-compatible endpoint, which guards itself
	Guard  *guard.Guard // Host and Origin rules; nil: loopback names only
	// Settings are what /api/settings reads and changes; nil: there is no such address.
	Settings *settings.File
	// CacheFlags is what the command line says about the cache on disk, which beats the settings.
	// The zero value: nothing.
	CacheFlags settings.Cache
	// Fixed are the fields of GeneralSettings that the command line says, or that this program does
	// not take from the settings.
	Fixed []string
	// Login starts Headroom when its user logs in; nil: this program cannot.
	Login LoginItem
	// Logs are what /api/logs shows; nil: there is no such address.
	Logs *logs.Logs
	// ModelFlags is what the command line says about every model, which beats the settings. The
	// zero value: nothing.
	ModelFlags settings.Model
	// ModelOptions is how a model of that ID would be opened by such settings; nil: settings of
	// models are not tried before they are kept.
	ModelOptions func(s settings.Settings, id string) engine.Options
	// Transfers are imports and downloads; nil: this program has none.
	Transfers *Transfers
	// Chats are the Chat page's conversations; nil: there is no folder for them.
	Chats *chats.Store
	// Wired is the wired limit; nil: this machine's.
	Wired *wired.Limit
	// ShowWindow opens the window or raises it; nil: this program has none.
	ShowWindow func() error
	Log        *slog.Logger // nil: slog.Default()
}

// API serves the control API, the web UI and the endpoint on one address.
type API struct {
	host    Host
	token   string
	log     *slog.Logger
	handler http.Handler

	settings     *settings.File
	cacheFlags   settings.Cache
	showWindow   func() error
	fixed        []string
	login        LoginItem
	logs         *logs.Logs
	begunFolders []string // ModelFolders when the program began
	modelFlags   settings.Model
	wired        *wired.Limit
	modelOptions func(settings.Settings, string) engine.Options
	transfers    *Transfers
	chats        *chats.Store

	closing   chan struct{} // closed by Close: event streams end
	closeOnce sync.Once
	rhythm    rhythm
}

// New makes the handler.
func New(o Options) *API {
	a := &API{host: o.Host, token: o.Token, log: o.Log, settings: o.Settings,
		cacheFlags: o.CacheFlags, showWindow: o.ShowWindow,
		modelFlags: o.ModelFlags, modelOptions: o.ModelOptions, wired: o.Wired, fixed: o.Fixed,
		login: o.Login, logs: o.Logs, transfers: o.Transfers, chats: o.Chats,
		closing: make(chan struct{}), rhythm: ordinaryRhythm}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.wired == nil {
		a.wired = wired.New(wired.Here())
	}
	if o.Settings != nil {
		a.begunFolders = o.Settings.Get().ModelFolders
	}
	access := o.Guard
	if access == nil {
		access = &guard.Guard{}
	}
	api := http.NewServeMux()
	for _, row := range a.Routes() {
		api.HandleFunc(row.Pattern,
			func(w http.ResponseWriter, r *http.Request) { row.serve(w, r, row) })
	}
	api.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, problem.New(problem.NotFound, "There is nothing at "+r.Method+" "+r.URL.Path, "",
			""))
	})

	mux := http.NewServeMux()
	for _, path := range []string{"/v1/", "/health", "/metrics"} {
		mux.Handle(path, o.Server)
	}
	mux.Handle("/api/", a.guarded(access, a.authorized(api)))
	mux.Handle("/", a.guarded(access, pages()))
	a.handler = mux
	return a
}

// guarded puts recovery and the check of host and origin before a handler. Their errors have the
// same form as those of the handler.
func (a *API) guarded(access *guard.Guard, next http.Handler) http.Handler {
	render := func(_ *http.Request, err error) server.Event {
		return server.Event{Data: ErrorBody{host.NewError(problem.From(err))}}
	}
	return server.Recover(a.log, render, access.Origin(server.Refuse(render), next))
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Close ends the event streams, which would hold up a shutdown for ever.
func (a *API) Close() { a.closeOnce.Do(func() { close(a.closing) }) }

// HasToken tells whether a request carries the token.
func (a *API) HasToken(r *http.Request) bool { return hasToken(r, a.token) }

// TokenCheck is HasToken for those who are made before the API.
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

func (a *API) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.HasToken(r) {
			refuse(w, problem.New(problem.Unauthorized, "This page is not allowed in",
				"its token is missing or wrong",
				"Open Headroom from the menu bar, or use the address that headroom serve printed."))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// maxBodyBytes bounds most bodies: a model's name, a switch.
const maxBodyBytes = 64 << 10

// readBody reads a body of JSON, which may be empty. The error is a Problem that says what to send.
func readBody(w http.ResponseWriter, r *http.Request, mostBytes int64, q any,
	example string) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, q)
	}
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return problem.New(problem.TooLarge, "The request is too long",
			fmt.Sprintf("%s takes %d bytes at most", r.URL.Path, tooLong.Limit),
			"Send less at once.")
	}
	if err != nil {
		return problem.Wrap(problem.BadRequest, err, "The request cannot be read",
			"Send "+example+".")
	}
	return nil
}

func refuse(w http.ResponseWriter, err error) {
	p := problem.From(err)
	write(w, server.StatusOf(p), ErrorBody{host.NewError(p)})
}

func write(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic("control: write: " + err.Error()) // our own types
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// rhythm is how often an event stream speaks.
type rhythm struct {
	busy      time.Duration // between states while the engine works: at most four a second
	idle      time.Duration // while nothing happens but memory and history
	heartbeat time.Duration // of silence, until a comment
}

var ordinaryRhythm = rhythm{busy: 250 * time.Millisecond, idle: time.Second,
	heartbeat: 10 * time.Second}

var errClosing = errors.New("the server is shutting down")

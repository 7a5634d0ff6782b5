package route

// A router with other machines, which are test servers.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/machines"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// patience bounds what a test waits for.
const patience = 20 * time.Second

// nowhere is this machine without a model.
type nowhere struct{}

func (nowhere) Acquire(string) (server.Model, error) {
	return server.Model{}, problem.New(problem.ModelNotFound, "no model", "", "")
}
func (nowhere) Resolve(string) (string, error) {
	return "", problem.New(problem.ModelNotFound, "no model", "", "")
}
func (nowhere) RoomBytes() int64 { return 0 }

// fake is another machine: a Headroom with the model "m".
type fake struct {
	*httptest.Server
	name     string
	answer   http.HandlerFunc // of requests for the model
	requests atomic.Int64
	held     atomic.Int64 // what POST /api/prefix answers
	down     atomic.Bool  // GET /api/machine fails
	key      string       // that the machine wants
}

func newFake(t testing.TB, name string, answer http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{name: name, answer: answer}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.key != "" && r.Header.Get("Authorization") != "Bearer "+f.key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/api/machine":
			if f.down.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, `{"models":[{"id":"m","loaded":true}]}`)
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "/api/prefix":
			_, _ = fmt.Fprintf(w, `{"memory_tokens":%d}`, f.held.Load())
		default:
			f.requests.Add(1)
			f.answer(w, r)
		}
	}))
	t.Cleanup(f.Server.Close)
	return f
}

// rig is a router with other machines behind an HTTP server.
type rig struct {
	*httptest.Server
	router *Router
	store  *machines.Store
	prompt []int32 // of every request; nil: unknown
	caller *guard.Caller
	// context changes that of each request; nil: it stays.
	context func(context.Context) context.Context
	mu      sync.Mutex
	failed  []error
	used    []guard.Used
	by      []string // the machines that have answered
}

// newRig returns a rig that knows the state of its machines.
func newRig(t testing.TB, here Here, fakes ...*fake) *rig {
	t.Helper()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:") // no keychain
	store, err := machines.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fakes {
		if _, err := store.Add(machines.Machine{Name: f.name, Kind: machines.Headroom, URL: f.URL},
			f.key); err != nil {
			t.Fatal(err)
		}
	}
	g := &rig{store: store}
	g.router = New(Options{Machines: store, Here: here, Poll: 40 * time.Millisecond,
		PrefixWait: patience, Log: slog.New(slog.DiscardHandler)})
	g.Server = httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(g.Close)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); g.router.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	for _, m := range g.router.machines() {
		eventually(t, func() bool { return m.state.Load().Err != errUnknown })
	}
	return g
}

// serve answers as engine/server does.
func (g *rig) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if g.context != nil {
		r = r.WithContext(g.context(r.Context()))
	}
	a := &server.Asked{Pattern: "POST " + r.URL.Path, Body: body, ID: "req", Caller: g.caller,
		Prompt: func() ([]int32, []int, error) {
			if g.prompt == nil {
				return nil, nil, errors.New("no tokenizer")
			}
			return g.prompt, []int{7, 100}, nil
		},
		ErrorEvent: func(_ string, err error) []byte {
			return []byte("data: ERROR " + err.Error() + "\n\n")
		},
		Report:  func(machine, _ string) { g.add(func() { g.by = append(g.by, machine) }) },
		Failed:  func(err error) { g.add(func() { g.failed = append(g.failed, err) }) },
		Used:    func(u guard.Used) { g.add(func() { g.used = append(g.used, u) }) },
		Release: func() {},
	}
	answered, err := g.router.Answer(w, r, a)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	case !answered:
		_, _ = io.WriteString(w, "here")
	}
}

func (g *rig) add(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
}

func eventually(t testing.TB, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

const chatPath = "/v1/chat/completions"

// post sends a request for the model m and returns the answer.
func (g *rig) post(t *testing.T, body string, header ...string) (status int, text string,
	h http.Header) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, g.URL+chatPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(data), response.Header
}

const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// Package route sends requests to the engines of other machines: other Headrooms, and servers with
// OpenAI's API. It implements server.Elsewhere, so that access control, limits, the log and the
// metrics are those of every request.
//
// A request goes to the engine with the least expected time to the first token (choose.go). What
// decides is whether the model is in memory there, how much of the prompt is cached, and how many
// other requests there are. Headrooms are asked how much they have of the prompt, by hashes of its
// tokens (prefix.go). Of other servers, and of a Headroom that does not answer in time, the router
// knows what it has sent them (sessions.go).
//
// Nothing is forwarded twice: a forwarded request has the header Headroom-Forwarded, and whoever
// gets one answers it alone. A request goes to another engine only before the first byte of the
// answer. Afterwards a failure ends the answer with the dialect's error event. Keys of clients stay
// here: a machine gets its own key.
//
//	route.go     the router, and the engines that may answer a request
//	choose.go    the choice
//	body.go      what is read of a request
//	limits.go    which requests may leave this machine
//	skim.go      finding values in JSON
//	memory.go    what was sent to which engine
//	sessions.go  conversations and their engines
//	simulate.go  the same choice among simulated engines
//	machine.go   another machine: its state, and requests that it runs
//	probe.go     looking at a machine before it is added
//	poll.go      asking machines for their state
//	forward.go   sending a request and copying the answer
//	running.go   what the pages show
//	headers.go   headers that are sent on
//	prefix.go    how much of a prompt the machines have cached
//	dialect.go   GET /api/machine and POST /api/prefix
//	models.go    lists of models with those of other machines
package route

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headroom/app/machines"
	"headroom/engine"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Here is this machine, as the router sees it. The host implements it.
type Here interface {
	// Acquire returns the model that a name means, if it is loaded.
	Acquire(name string) (server.Model, error)
	// Resolve returns the ID of the model that a name means, loaded or not.
	Resolve(name string) (id string, err error)
	// RoomBytes returns how much memory a model may take; 0: unknown.
	RoomBytes() int64
}

// Options configure a Router. Machines and Here are required.
type Options struct {
	Machines *machines.Store
	Here     Here
	// Own returns this machine's certificate with its private key, for machines that were paired
	// with it. nil: it has none.
	Own func() (*tls.Certificate, error)
	Log *slog.Logger // nil: slog.Default()
	// Poll is the time between two questions for the state of a machine; 0: 2 s.
	Poll time.Duration
	// PrefixWait is how long a machine may take to say what it has cached; 0: 50 ms.
	PrefixWait time.Duration
	// RefusalWait is how long the answer of a machine that refuses a request may take to arrive
	// completely, once it has begun; 0: 3 s.
	RefusalWait time.Duration
}

// Router chooses engines and forwards requests. Its methods are safe for concurrent use.
type Router struct {
	o      Options
	log    *slog.Logger
	memory *memory
	// list is what Active looks at: nil as long as there is no machine that is on.
	list atomic.Pointer[[]*machine]

	speeds   speeds       // of this machine
	hereSent atomic.Int64 // requests that this machine was chosen for and has not answered

	mu      sync.Mutex
	running map[*Running]bool
}

// hereID is the ID of this machine among the engines.
const hereID = ""

// New returns a Router. It knows the machines of the store, and nothing of their state before Run.
func New(o Options) *Router {
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	o.PrefixWait = cmp.Or(o.PrefixWait, defaultPrefixWait)
	o.RefusalWait = cmp.Or(o.RefusalWait, defaultRefusalWait)
	r := &Router{o: o, log: o.Log, memory: newMemory(), running: map[*Running]bool{}}
	if r.log == nil {
		r.log = slog.Default()
	}
	r.Reload()
	return r
}

// Active implements server.Elsewhere.
func (r *Router) Active() bool { return r.list.Load() != nil }

// machines returns the machines that are on.
func (r *Router) machines() []*machine {
	if list := r.list.Load(); list != nil {
		return *list
	}
	return nil
}

// routed are the routes whose requests may be forwarded. prompt says that the prompt's tokens tell
// what of it is cached; only says that no other server than a Headroom has the route.
var routed = map[string]struct{ prompt, only bool }{
	"POST /v1/chat/completions":      {prompt: true},
	"POST /v1/completions":           {prompt: true},
	"POST /v1/messages":              {prompt: true},
	"POST /v1/messages/count_tokens": {},
	"POST /v1/responses":             {prompt: true},
	"POST /v1/embeddings":            {},
	"POST /v1/rerank":                {},
	"POST /api/chat":                 {prompt: true, only: true},
	"POST /api/generate":             {prompt: true, only: true},
	"POST /api/embed":                {only: true},
	"POST /api/embeddings":           {only: true},
	"POST /tokenize":                 {only: true},
	"POST /detokenize":               {only: true},
	"POST /apply-template":           {only: true},
}

// question is a request on its way to an engine.
type question struct {
	*server.Asked
	request *http.Request
	body    body
	session session
	here    string       // ID of the model on this machine; "": it does not have it
	named   string       // machine that the request names; "": none
	only    string       // ID of the machine that must answer; "": any
	tokens  int          // of the prompt; estimated from the body without chain
	chain   []engineHash // of blocks of prefixBlock
	held    engine.HeldQuestion
}

// engine is one that can answer a question.
type target struct {
	*machine // nil: this machine
	Candidate
	model string // the name of the model there
}

func (e *target) id() string {
	if e.machine == nil {
		return hereID
	}
	return e.stored.ID
}

// Answer implements server.Elsewhere.
func (r *Router) Answer(w http.ResponseWriter, request *http.Request, a *server.Asked) (bool,
	error) {
	route, ok := routed[a.Pattern]
	if !ok || server.Forwarded(request.Header) {
		return false, nil
	}
	if guard.InBackground(request.Context()) {
		return false, nil // a batch, maybe of a paired machine, uses what others leave of this one
	}
	q := &question{Asked: a, request: request}
	if q.body, ok = readBody(a.Body); !ok {
		return false, nil
	}
	if q.body.previous != "" && !r.findPrevious(q) {
		return false, nil // this machine has the earlier response, or nobody does
	}
	engines, err := r.engines(q, route.only)
	if len(engines) == 0 && err == nil && q.body.model != "" {
		r.awaitFirst(request.Context())
		engines, err = r.engines(q, route.only)
	}
	if err != nil || !slices.ContainsFunc(engines, func(e target) bool {
		return e.machine != nil
	}) {
		return false, err
	}
	if ok, err := q.mayLeave(engines); !ok {
		return false, err
	}
	r.weigh(request.Context(), q, engines, route.prompt)
	return r.send(w, q, engines)
}

// responseSession stands for a response that a machine has stored. Requests that follow it go
// there.
func responseSession(id string) session { return hashed("", "response", []byte(id)) }

// findPrevious finds the machine that has the response which a request follows. It reports whether
// another machine has it.
func (r *Router) findPrevious(q *question) bool {
	id, ok := r.memory.responses.last(responseSession(q.body.previous))
	if !ok || id == hereID {
		return false
	}
	q.only = id
	return true
}

// bytesPerToken estimates the tokens of a body.
const bytesPerToken = 4

// engines returns the engines that have the model of a request. The error says that the only
// machines that have it do not answer.
func (r *Router) engines(q *question, onlyHeadrooms bool) (list []target, err error) {
	name := q.body.model
	if at := strings.LastIndex(name, machineSign); at >= 0 {
		if m := r.named(name[at+len(machineSign):]); m != nil {
			q.named, name = m.stored.Name, name[:at]
		}
	}
	if id, err := r.o.Here.Resolve(name); err == nil && q.named == "" {
		if !q.allows(id) {
			return nil, nil // the server says so
		}
		q.here = id
		if q.only == "" {
			list = append(list, target{model: name})
		}
	}
	wanted := cmp.Or(q.here, name)
	var silent []*machine
	for _, m := range r.machines() {
		if q.named != "" && q.named != m.stored.Name || q.only != "" && q.only != m.stored.ID {
			continue
		}
		model := m.find(wanted)
		if model == nil || !q.allows(model.ID) ||
			m.stored.Kind != machines.Headroom && (onlyHeadrooms || q.isPrivate()) {
			continue
		}
		if state := m.state.Load(); state.Err != nil {
			silent = append(silent, m)
			continue
		}
		list = append(list, target{machine: m, model: model.ID,
			Candidate: Candidate{Remote: true}})
	}
	if len(list) == 0 && len(silent) > 0 {
		return nil, silent[0].noAnswer(silent[0].state.Load().Err)
	}
	if len(list) == 0 && q.named != "" {
		return nil, problem.New(problem.ModelNotFound,
			fmt.Sprintf("The machine %q has no model %q", q.named, name), "",
			"Ask for one that GET /v1/models lists with that machine.")
	}
	return list, nil
}

// machineSign is between the name of a model and that of a machine in a request: MODEL@MACHINE.
const machineSign = "@"

// allows reports whether the request's key may use a model.
func (q *question) allows(id string) bool {
	base, _, adapted := server.CutAdapter(id)
	return q.Caller == nil || q.Caller.Allows(id) || adapted && q.Caller.Allows(base)
}

// isPrivate reports whether a request says where it may be cached. Only a Headroom understands it.
func (q *question) isPrivate() bool {
	return q.request.Header.Get("Headroom-Cache") != "" || q.body.private
}

// named returns the machine with a name; nil: there is none.
func (r *Router) named(name string) *machine {
	for _, m := range r.machines() {
		if strings.EqualFold(m.stored.Name, name) {
			return m
		}
	}
	return nil
}

// weigh finds out what the choice needs to know of the engines.
func (r *Router) weigh(ctx context.Context, q *question, engines []target, hasPrompt bool) {
	q.session = sessionOf(q.request.Header, &q.body, cmp.Or(q.here, q.body.model))
	q.tokens = len(q.Body) / bytesPerToken
	if hasPrompt && len(engines) > 1 {
		// It fails if this machine does not have the tokenizer.
		if tokens, ends, err := q.Prompt(); err == nil {
			q.tokens = len(tokens)
			q.chain = engine.PrefixChain(tokens, prefixBlock)
			q.held = newHeldQuestion(tokens, ends)
		}
	}
	ids := make([]string, len(engines))
	for i := range engines {
		e := &engines[i]
		ids[i] = e.id()
		if e.machine == nil {
			r.weighHere(q, e)
		} else {
			e.weigh()
		}
	}
	list := candidates(engines)
	ask := r.memory.prepare(q.session, q.chain, ids, list, func(i int) bool {
		return len(q.held.Chain) > 0 && len(engines) > 1 && engines[i].canTell()
	})
	for i := range engines {
		engines[i].Candidate = list[i]
	}
	r.askPrefixes(ctx, q, engines, ask)
}

// weighHere does it for this machine.
func (r *Router) weighHere(q *question, e *target) {
	e.RoomBytes = r.o.Here.RoomBytes()
	m, err := r.o.Here.Acquire(q.here)
	if err != nil {
		return
	}
	stats := m.Engine.Stats()
	e.Resident = true
	e.Requests = max(stats.Running+stats.Waiting, int(r.hereSent.Load()))
	r.speeds.note(m.ID, stats.PrefillTokensPerSecond)
	e.TokensPerSecond = r.speeds.of(m.ID)
}

// maxTries is how many engines get a request at most. One that ends engines must not end them all.
const maxTries = 3

// send sends a request to the best engine, and to the next best one if that fails before its answer
// begins.
func (r *Router) send(w http.ResponseWriter, q *question, engines []target) (answered bool,
	err error) {
	for range maxTries {
		i := Choose(Prompt{Tokens: q.tokens}, candidates(engines))
		if i < 0 {
			break
		}
		e := engines[i]
		r.memory.note(q.session, q.chain, e.id(), q.tokens, time.Now())
		if e.machine == nil {
			r.hereSent.Add(1)
			context.AfterFunc(q.request.Context(), func() { r.hereSent.Add(-1) })
			return false, nil
		}
		var failed *failure
		if failed = r.forward(w, q, &e); failed == nil {
			return true, nil
		}
		if ctx := q.request.Context(); ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if errors.Is(failed.err, errCancelled) {
			return false, errCancelled
		}
		if engines = slices.Delete(engines, i, i+1); len(engines) == 0 || failed.final {
			return failed.answer(w, q, e.machine)
		}
		err = failed.problem(e.machine)
		r.log.Warn("a machine did not answer, so another one gets the request", "machine",
			e.stored.Name, "request", q.ID, "err", err)
	}
	return false, err
}

func candidates(engines []target) []Candidate {
	list := make([]Candidate, len(engines))
	for i := range engines {
		list[i] = engines[i].Candidate
	}
	return list
}

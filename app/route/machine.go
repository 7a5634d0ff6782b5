package route

// Another machine: what it said of itself, and the requests that this one has sent it.

import (
	"crypto/tls"
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headroom/app/machines"
	"headroom/engine/problem"
)

// Info is what a machine says of itself: the answer to GET /api/machine.
type Info struct {
	Version   string  `json:"version"`
	RoomBytes int64   `json:"room_bytes,omitempty"` // for further models; 0: unknown
	Models    []Model `json:"models"`
}

// Model is a model of a machine.
type Model struct {
	ID            string   `json:"id"`
	Aliases       []string `json:"aliases,omitempty"`
	Loaded        bool     `json:"loaded"`
	ContextTokens int      `json:"context_tokens,omitempty"`
	Requests      int      `json:"requests,omitempty"` // running or waiting
	// PrefillTokensPerSecond is the speed of reading prompts while it reads some; 0: it reads none.
	PrefillTokensPerSecond float64 `json:"prefill_tokens_per_second,omitempty"`
}

// state is what is known of a machine. It does not change.
type state struct {
	Info
	byName map[string]*Model // by ID and alias, in lower case
	Err    error             // why the machine cannot be used; nil: it can
	at     time.Time         // of the answer that Info comes from
	// sent is, by model, how many of the requests in Info were from here.
	sent map[string]int
}

// speeds are those of reading prompts, in tokens per second, by model. Short prompts are read
// slowly, so the best of the last measurements counts.
type speeds struct{ byModel sync.Map }

// speedMemory is the share of an earlier speed that a new measurement leaves.
const speedMemory = 0.98

// note notes a measurement; 0: none.
func (s *speeds) note(model string, speed float64) {
	if speed > 0 {
		s.byModel.Store(model, max(speed, speedMemory*s.of(model)))
	}
}

// of returns the speed with a model; 0: unknown.
func (s *speeds) of(model string) float64 {
	speed, _ := s.byModel.Load(model)
	known, _ := speed.(float64)
	return known
}

// keep forgets the speeds with models that are not listed.
func (s *speeds) keep(list []Model) {
	listed := make(map[string]bool, len(list))
	for i := range list {
		listed[list[i].ID] = true
	}
	s.byModel.Range(func(id, _ any) bool {
		if !listed[id.(string)] {
			s.byModel.Delete(id)
		}
		return true
	})
}

// errUnknown is the error of a machine that has not been asked yet.
var errUnknown = fmt.Errorf("it has not answered yet")

// machine is another machine that is on.
type machine struct {
	stored machines.Machine
	client *http.Client
	secret func() (string, error)
	state  atomic.Pointer[state]
	speeds speeds

	mu       sync.Mutex
	requests map[string]int // that this machine has sent and that are not answered, by model
	heard    time.Time      // when the machine last sent anything
	gone     chan struct{}  // closed while the machine does not answer
	asking   bool
	next     time.Time     // when to ask it again
	failures int           // in a row
	asked    chan struct{} // closed once it has been asked
}

// newMachine returns a machine of which nothing is known yet. own is Options.Own.
func newMachine(m machines.Machine, secret func() (string, error),
	own func() (*tls.Certificate, error)) *machine {
	one := &machine{stored: m, client: machines.ClientAs(m, own), secret: secret,
		requests: map[string]int{}, gone: make(chan struct{}), asked: make(chan struct{})}
	one.state.Store(&state{Err: errUnknown})
	return one
}

// setInfo makes what the machine has said its state.
func (m *machine) setInfo(info Info, sent map[string]int, now time.Time) {
	s := &state{Info: info, byName: map[string]*Model{}, at: now, sent: sent}
	used := map[string]bool{}
	for _, id := range m.stored.Models {
		used[strings.ToLower(id)] = true
	}
	s.Models = nil
	for i := range info.Models {
		model := &info.Models[i]
		if len(used) > 0 && !used[strings.ToLower(model.ID)] {
			continue
		}
		s.Models = append(s.Models, *model)
		m.speeds.note(model.ID, model.PrefillTokensPerSecond)
	}
	m.speeds.keep(s.Models) // a machine may name new ones for ever
	for i := range s.Models {
		for _, alias := range s.Models[i].Aliases {
			s.byName[strings.ToLower(alias)] = &s.Models[i]
		}
	}
	for i := range s.Models { // an ID means its model, whatever others are called
		s.byName[strings.ToLower(s.Models[i].ID)] = &s.Models[i]
	}
	m.state.Store(s)
}

// setError says why the machine cannot be used. What it had stays known, for errors.
func (m *machine) setError(err error) {
	s := *m.state.Load()
	s.Err = err
	m.state.Store(&s)
}

// find returns the model that a name means on the machine; nil: there is none.
func (m *machine) find(name string) *Model {
	return m.state.Load().byName[strings.ToLower(name)]
}

// weigh finds out what the choice needs to know of a machine.
func (e *target) weigh() {
	s := e.state.Load()
	model := s.byName[strings.ToLower(e.model)]
	if model == nil {
		return
	}
	e.Resident, e.RoomBytes = model.Loaded, s.RoomBytes
	e.TokensPerSecond = e.speeds.of(model.ID)
	e.mu.Lock()
	defer e.mu.Unlock()
	// Of the requests that the machine had, those of others are still there, as far as known.
	e.Requests = max(0, model.Requests-s.sent[model.ID]) + e.requests[model.ID]
}

// begin counts a request to a model of the machine until end is called.
func (m *machine) begin(model string) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[model]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.requests[model]--; m.requests[model] == 0 {
			delete(m.requests, model)
		}
	}
}

// hear notes that the machine has sent something.
func (m *machine) hear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = time.Now()
}

// noAnswer returns the Problem of a machine that does not answer.
func (m *machine) noAnswer(err error) error {
	return problem.Wrap(problem.Upstream, err,
		fmt.Sprintf("The machine %q does not answer", m.stored.Name),
		"Wake it, or start its server; `headroom machines check` says more.")
}

// order returns a number that decides between equal engines, in another way for each conversation.
func order(s session, engine string) uint64 {
	x := uint64(s) ^ maphash.String(seed, engine)
	x ^= x >> 33 // the finalizer of MurmurHash3
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

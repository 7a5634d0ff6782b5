package server

// Requests that the engine of another machine answers. They pass the same access control, limits,
// log and metrics as all others. app/route chooses the machine and copies the answer.

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/problem"
)

// Elsewhere answers requests by the engines of other machines.
type Elsewhere interface {
	// Active reports whether there are other machines. If not, nothing else is called. It is called
	// for each request, and must not wait.
	Active() bool
	// Answer answers a request, or returns false: this machine answers it. The error is a Problem,
	// or the error of r's context; nothing has been written then.
	Answer(w http.ResponseWriter, r *http.Request, a *Asked) (answered bool, err error)
}

// ForwardedHeader marks a request that another Headroom has forwarded, and each request of a paired
// machine. This machine alone answers it, and lists show it only the models of this one.
const ForwardedHeader = "Headroom-Forwarded"

// Forwarded reports whether the headers are those of a request that this machine alone answers.
func Forwarded(h http.Header) bool {
	if len(h.Values(ForwardedHeader)) > 0 {
		return true
	}
	for _, value := range h.Values("Via") {
		if strings.Contains(strings.ToLower(value), "headroom") {
			return true
		}
	}
	return false
}

// Shared is implemented by Models that have those of other machines, too.
type Shared interface {
	// Here returns the models of this machine.
	Here() Models
}

// Asked is a request as Elsewhere gets it. Its functions may be called until Answer returns.
type Asked struct {
	Pattern string // of the route: "POST /v1/chat/completions"
	Body    []byte // the JSON, as it has arrived
	Caller  *guard.Caller
	Client  string // the name of the program that sends the request; "": unknown
	ID      string // of the HTTP request, as the client gets it

	// Prompt returns the tokens of the request's prompt, as a model of this machine would read
	// them, and the positions before and after its first and its last special tokens, where
	// messages end. It loads no model. It fails if the request is not valid, has no prompt or
	// several, or this machine does not have the model's tokenizer.
	Prompt func() (tokens []int32, ends []int, err error)
	// ErrorEvent returns the text that ends a stream with an error, in the dialect of the request.
	// contentType is the stream's.
	ErrorEvent func(contentType string, err error) []byte
	// Report says for the log and the metrics which machine answers with which model.
	Report func(machine, model string)
	// Failed says for the log why an answer that has begun ends too early.
	Failed func(error)
	// Used says what the answer has used, as far as the machine tells.
	Used func(guard.Used)
	// Release gives back the memory that counts for Body, which is not used after that.
	Release func()
}

// errAnswered is the result of preparing a request that another machine has answered.
var errAnswered = errors.New("another machine has answered")

// askElsewhere returns what lets another machine answer a request with a body; nil: there is no
// other machine. It returns errAnswered if that has been done, and nil if this machine shall
// answer.
func (s *Server) askElsewhere(w http.ResponseWriter, r *http.Request, d Dialect,
	route Route) func(*Body) error {
	if s.elsewhere == nil || !s.elsewhere.Active() {
		return nil
	}
	return func(body *Body) error { return s.tryElsewhere(w, r, d, route, body) }
}

func (s *Server) tryElsewhere(w http.ResponseWriter, r *http.Request, d Dialect, route Route,
	body *Body) error {
	rec, json := recordOf(r), bytes.TrimPrefix(body.Bytes, byteOrderMark)
	asked := &Asked{Pattern: route.Pattern, Body: json, Caller: guard.CallerOf(r),
		Client: clientName(r.Header), ID: rec.request,
		Prompt: func() ([]int32, []int, error) { return s.promptOf(r, route, json) },
		ErrorEvent: func(contentType string, err error) []byte {
			framing, _ := framingOf(http.Header{"Content-Type": {contentType}})
			return []byte(framed(framing, d.Error(&requestError{err, rec.request})))
		},
		Report: func(machine, model string) {
			rec.machine, rec.model = machine, model
			rec.private = mayBePrivate(r, json)
			s.metrics.forwarded(machine)
		},
		Failed:  rec.fail,
		Used:    func(u guard.Used) { rec.used = u },
		Release: body.Release,
	}
	if err := s.checkUnload(r, route, json); err != nil {
		return err
	}
	answered, err := s.elsewhere.Answer(w, r, asked)
	if err == nil && answered {
		err = errAnswered
	}
	return err
}

// errNoPrompt is the error of promptOf for requests that have no single prompt.
var errNoPrompt = problem.New(problem.BadRequest, "The request has no single prompt", "", "")

// promptOf returns what Asked.Prompt does. It needs only the text processor of the model, which
// need not be loaded.
func (s *Server) promptOf(r *http.Request, route Route, body []byte) (tokens []int32, ends []int,
	err error) {
	if route.Parse == nil {
		return nil, nil, errNoPrompt
	}
	ctx := r.Context()
	err = s.inTurn(ctx, func() error {
		call, err := route.Parse(body)
		if err != nil {
			return err
		}
		if call.Loaded != nil || call.Reads != nil || len(call.More) > 0 {
			return errNoPrompt
		}
		id, model, err := s.textsFor(r, call.Model)
		if err != nil {
			return err
		}
		call.SetDefaults(s.defaults(id))
		tokens, _, err = call.Encode(ctx, model, 0)
		if err == nil {
			ends = endsOf(tokens, model.Tokenizer().IsSpecial)
		}
		return err
	})
	return tokens, ends, err
}

// Of the special tokens of a prompt, the first and the last ones tell where messages end at which
// earlier prompts and answers may have ended.
const (
	firstEnds = 8
	lastEnds  = 24
)

// endsOf returns the positions before and after the first and the last special tokens.
func endsOf(tokens []int32, special func(int32) bool) (ends []int) {
	at := make([]int, 0, firstEnds+lastEnds)
	for i := 0; i < len(tokens) && len(at) < firstEnds; i++ {
		if special(tokens[i]) {
			at = append(at, i)
		}
	}
	first := len(at)
	for i := len(tokens) - 1; i >= 0 && len(at) < first+lastEnds; i-- {
		if special(tokens[i]) {
			at = append(at, i)
		}
	}
	for _, i := range at {
		ends = append(ends, i, i+1)
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// textsFor returns what Resources.Texts does, but never loads a model.
func (s *Server) textsFor(r *http.Request, name string) (id string, m generate.Model, err error) {
	models := s.modelsFor(r)
	if texts, ok := models.(TextModels); ok {
		return texts.Texts(name)
	}
	model, err := models.Acquire(name)
	return model.ID, model.Engine, err
}

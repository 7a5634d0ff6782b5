package server

// What the holders of named keys may do; see guard.Caller. Everybody else may do everything.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// Resolver is implemented by Models for which one model has several names.
type Resolver interface {
	// Resolve returns the ID of the model that a request means by a name, loaded or not. "" means
	// the default model. Errors are Problems.
	Resolve(name string) (id string, err error)
}

// noteCaller puts the name of the key into the record of a request.
func noteCaller(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := guard.CallerOf(r); c != nil {
			recordOf(r).key = c.Name
		}
		next.ServeHTTP(w, r)
	})
}

// keyName returns the name of the key of a request; "": it has none.
func keyName(r *http.Request) string {
	if c := guard.CallerOf(r); c != nil {
		return c.Name
	}
	return ""
}

// ownerOf returns engine.Request.Owner for a request. All requests without a named key have one
// owner. A key with the name of a removed one is another owner.
func ownerOf(r *http.Request) string {
	if c := guard.CallerOf(r); c != nil {
		return c.ID
	}
	return ""
}

// begin begins a request of a route. If it uses a model, it counts for its key, and the request
// that begin returns ends when the key is removed. The error is a Problem, because the key has
// reached a limit. Otherwise the handler calls end when it has answered.
func begin(r *http.Request, route Route) (begun *http.Request, end func(), err error) {
	c := guard.CallerOf(r)
	if c == nil || route.Free {
		return r, func() {}, nil
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	counted, err := c.Begin(cancel)
	if err != nil {
		cancel(err)
		return nil, nil, err
	}
	rec := recordOf(r)
	return r.WithContext(ctx), func() {
		counted(rec.used)
		cancel(context.Canceled)
	}, nil
}

// priorityOf returns the priority of a request that asks for one. With a named key it can go behind
// the others of its class, and not ahead. A class is the priority of the key.
func priorityOf(r *http.Request, asked int) int {
	c := guard.CallerOf(r)
	if c == nil {
		return asked
	}
	const class = 4 * generate.MaxPriority // no request's priority reaches the next class
	return c.Priority*class + min(asked, 0)
}

// modelsFor returns the models that a request may use.
func (s *Server) modelsFor(r *http.Request) Models {
	models := s.models
	if shared, ok := models.(Shared); ok && Forwarded(r.Header) {
		models = shared.Here()
	}
	c := guard.CallerOf(r)
	if c == nil {
		return models
	}
	some := someModels{models, c}
	if texts, ok := models.(TextModels); ok {
		return someTexts{some, texts}
	}
	return some
}

// pullFunc is the type of Options.Pull.
type pullFunc = func(ctx context.Context, name string, report func(Progress) error) error

// pullFor returns Options.Pull for a request. Who holds a named key may use models, but not fill
// the disk with new ones.
func (s *Server) pullFor(r *http.Request) pullFunc {
	if s.pull == nil || guard.CallerOf(r) == nil {
		return s.pull
	}
	return func(context.Context, string, func(Progress) error) error {
		return problem.New(problem.Forbidden, "A named API key may not download models", "",
			"Download it on the Models page or with `headroom models download`.")
	}
}

// deleteFunc is the type of Options.Delete.
type deleteFunc = func(name string) error

// deleteFor returns Options.Delete for a request. Who holds a named key may use models, but not
// take them from the others.
func (s *Server) deleteFor(r *http.Request) deleteFunc {
	if s.delete == nil || guard.CallerOf(r) == nil {
		return s.delete
	}
	return func(string) error {
		return problem.New(problem.Forbidden, "A named API key may not delete models", "",
			"Move the model to the Trash on the Models page.")
	}
}

// limitKeepAlive keeps who holds a named key from deciding how long a model stays: others may use
// it.
func limitKeepAlive(r *http.Request, call *Call) error {
	if guard.CallerOf(r) == nil || call.KeepAlive == nil {
		return nil
	}
	if call.Loaded != nil && *call.KeepAlive == 0 {
		return problem.New(problem.Forbidden, "A named API key may not unload models", "", "")
	}
	call.KeepAlive = nil
	return nil
}

// checkUnload returns the error of limitKeepAlive for a request that may go to another machine. A
// body that this machine does not understand has none; app/route takes keep_alive from it.
func (s *Server) checkUnload(r *http.Request, route Route, body []byte) error {
	if guard.CallerOf(r) == nil || route.Parse == nil ||
		!bytes.Contains(body, []byte("keep_alive")) && !bytes.Contains(body, []byte(`\u`)) {
		return nil // no name with an escape is keep_alive either
	}
	return s.inTurn(r.Context(), func() error {
		call, err := route.Parse(body)
		if err != nil {
			return nil
		}
		return limitKeepAlive(r, call)
	})
}

// someModels are the models that a key may use. Any other model is answered as one that does not
// exist, so that the key does not tell what else is there. For the same reason, an error has only
// its message: the rest may name models. For a key that may use all, an error lacks paths of files.
type someModels struct {
	all    Models
	caller *guard.Caller
}

// List implements Models.
func (m someModels) List() []ModelInfo {
	return slices.DeleteFunc(slices.Clone(m.all.List()),
		func(one ModelInfo) bool { return !m.caller.Allows(cmp.Or(one.Base, one.ID)) })
}

// Listed implements Models.
func (m someModels) Listed() bool { return m.all.Listed() }

// Acquire implements Models.
func (m someModels) Acquire(name string) (Model, error) {
	if err := m.check(name); err != nil {
		return Model{}, err
	}
	return m.allowed(name)(m.all.Acquire(name))
}

// Wake implements Models.
func (m someModels) Wake(ctx context.Context, name string) (Model, error) {
	if err := m.check(name); err != nil {
		return Model{}, err
	}
	model, err := m.all.Wake(ctx, name)
	if err != nil && ctx.Err() != nil {
		return model, err
	}
	return m.allowed(name)(model, err)
}

// Task implements TaskModels.
func (m someModels) Task(name string) (id string, task modelfile.Task, known bool) {
	all, ok := m.all.(TaskModels)
	if !ok || m.check(name) != nil {
		return "", "", false
	}
	id, task, known = all.Task(name)
	return id, task, known && m.caller.Allows(id)
}

// Resolve implements Resolver.
func (m someModels) Resolve(name string) (id string, err error) {
	if err := m.check(name); err != nil {
		return "", err
	}
	return IDOf(m.all, name)
}

// IDOf returns the ID of the model that a request means by a name: the name itself, if models have
// no other names.
func IDOf(models Models, name string) (id string, err error) {
	if r, ok := models.(Resolver); ok {
		return r.Resolve(name)
	}
	return name, nil
}

// check returns a Problem unless a name means a model that the key may use.
func (m someModels) check(name string) error {
	if len(m.caller.Models) == 0 {
		return nil
	}
	id, err := IDOf(m.all, name)
	switch {
	case err != nil && problem.From(err).Code != problem.ModelNotFound:
		return messageOf(err) // no model is loaded, and none is named
	case err != nil, !m.caller.Allows(id):
		return m.notFound(name)
	}
	return nil
}

// allowed returns what checks a result again: a name may have another meaning by now.
func (m someModels) allowed(name string) func(Model, error) (Model, error) {
	return func(model Model, err error) (Model, error) {
		switch {
		case err != nil:
			return Model{}, m.reduced(err)
		case m.caller.Allows(model.ID):
			return model, nil
		case model.Release != nil:
			model.Release(nil)
		}
		return Model{}, m.notFound(name)
	}
}

// reduced returns what of an error the holder of the key may know.
func (m someModels) reduced(err error) error {
	switch {
	case len(m.caller.Models) > 0:
		return messageOf(err)
	case !path.MatchString(err.Error()):
		return err
	}
	p := *problem.From(err)
	for text, without := range map[*string]string{&p.Message: "The model cannot be used",
		&p.Why: "the log of the server says why", &p.Fix: ""} {
		if path.MatchString(*text) {
			*text = without
		}
	}
	return &p
}

// path matches the beginning of an absolute path in a text.
var path = regexp.MustCompile(`(^|[\s"'(=])~?/[^\s/]`)

// messageOf returns a Problem with the message of an error alone.
func messageOf(err error) error {
	p := *problem.From(err)
	p.Why, p.Fix, p.Err = "", "", nil
	return &p
}

func (m someModels) notFound(name string) error {
	what := fmt.Sprintf("There is no model %q for this API key", name)
	if name == "" {
		what = "The default model is not for this API key"
	}
	return problem.New(problem.ModelNotFound, what, "",
		"Ask for one of these: "+strings.Join(m.caller.Models, ", ")+".")
}

// someTexts are someModels of which the texts are known.
type someTexts struct {
	someModels
	texts TextModels
}

// Texts implements TextModels.
func (m someTexts) Texts(name string) (id string, model generate.Model, err error) {
	if err := m.check(name); err != nil {
		return "", nil, err
	}
	id, model, err = m.texts.Texts(name)
	switch {
	case err != nil:
		return "", nil, m.reduced(err)
	case !m.caller.Allows(id):
		return "", nil, m.notFound(name)
	}
	return id, model, nil
}

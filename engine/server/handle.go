package server

// The handler of requests for a generation. When the handler returns or panics, the engine's
// request has ended or is cancelled.

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// handle returns the handler of a dialect's route.
func (s *Server) handle(d Dialect, route Route) http.HandlerFunc {
	if route.Document != nil {
		return func(w http.ResponseWriter, r *http.Request) {
			v, err := route.Document(r, s.modelsFor(r))
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			d, err := newDocument(r.Context(), v)
			if err != nil {
				s.refuse(w, r, ended(r.Context(), err))
				return
			}
			d.write(w)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		begun, end, err := begin(r, route)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer end()
		r = begun
		if (route.Parse != nil || route.Answer != nil) && !guard.InBackground(r.Context()) {
			defer s.spare.Wait()()
		}
		if route.Answer != nil {
			recordOf(r).private = true
			document, err := s.answer(w, r, d, route)
			if err == errAnswered {
				return
			}
			if err != nil {
				s.refuse(w, r, ended(r.Context(), err))
				return
			}
			document.write(w)
			return
		}
		if route.Handle != nil {
			if body, ok := r.Body.(*pacedBody); ok {
				body.streamed = true
			}
			if err := route.Handle(w, r); err != nil {
				s.refuse(w, r, ended(r.Context(), err))
			}
			return
		}
		if route.Follow != nil {
			s.follow(w, r, d, route)
			return
		}
		held := &serving{}
		defer held.release()
		list, err := s.prepare(w, r, d, route, held)
		if err == errAnswered {
			return
		}
		if err != nil {
			err = ended(r.Context(), err)
			if held.events != nil {
				recordOf(r).fail(err)
				_ = held.events.events(failure(
					held.call.Renderer(generate.Head{ID: held.call.ID, Model: held.call.Model,
						Created: time.Now(), Cache: held.call.Cache}),
					func(err error) Event {
						return d.Error(&requestError{err, recordOf(r).request})
					}, err))
				return
			}
			s.refuse(w, r, err)
			return
		}
		if list == nil { // the model was to be loaded, or unloaded
			held.release()
			writeJSON(w, http.StatusOK, held.document())
			return
		}
		s.generate(w, r, list)
	}
}

// ended returns err, or a better error if the request's context has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return disconnection(ctx)
	}
	return err
}

// answer returns the document of a route that has a body and no generation.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, d Dialect, route Route) (
	answer *document, err error) {
	err = s.withBody(r, s.askElsewhere(w, r, d, route), func(body []byte) error {
		v, err := route.Answer(r.Context(), body, s.resources(r))
		if err == nil {
			answer, err = newDocument(r.Context(), v) // while the memory to build it is taken
		}
		return err
	})
	return answer, err
}

// resources returns what the request may use.
func (s *Server) resources(r *http.Request) Resources {
	return Resources{Models: s.modelsFor(r), Defaults: s.defaults, pull: s.pullFor(r),
		delete: s.deleteFor(r), priority: priorityOf(r, 0), record: recordOf(r),
		vectorRequests: &s.vectors,
		count: func(u engine.Usage) {
			s.metrics.generation(u, 0, &record{})
		}}
}

// withBody calls do with the body of a request, within the limits of size and memory. The body is
// valid until do returns. elsewhere is what askElsewhere returned; its error ends withBody.
func (s *Server) withBody(r *http.Request, elsewhere func(*Body) error,
	do func(body []byte) error) error {
	limit, tooLong := s.bodyLimit()
	if elsewhere != nil {
		limit, tooLong = s.limitFor(0) // other machines may have models with a longer context
	}
	body, err := readBody(r, limit, tooLong)
	if err != nil {
		return err
	}
	defer body.Release()
	if elsewhere != nil {
		if err := elsewhere(body); err != nil {
			return err
		}
	}
	built, err := takeBuild(r.Context(), body.Bytes)
	if err != nil {
		return err
	}
	defer built()
	return do(bytes.TrimPrefix(body.Bytes, byteOrderMark))
}

// byteOrderMark begins the texts of some programs, though JSON has none.
var byteOrderMark = []byte("\uFEFF")

// generation is a Call with everything that is needed to submit it.
type generation struct {
	*Call
	dialect Dialect
	model   Model
	held    *serving // of the request
	prompt  []int32
	// prediction is a text that the answer may repeat, or nil.
	prediction []int32
	text       string         // of the prompt, if it is to be echoed and not a list of tokens
	split      *chat.Splitter // nil: all text is content
	number     int            // of the answer to this prompt
	read       *generate.Read // instead of the prompt; nil: an answer is to be generated
}

// prepare parses the request, waits for its model and encodes its prompts. The list has a
// generation for each answer. It is nil for a call without one; see Call.Loaded. held gets the
// model.
func (s *Server) prepare(w http.ResponseWriter, r *http.Request, d Dialect, route Route,
	held *serving) (list []*generation, err error) {
	err = s.withBody(r, s.askElsewhere(w, r, d, route), func(body []byte) error {
		list, err = s.prepareBody(w, r, d, route, body, held)
		return err
	})
	return list, err
}

func (s *Server) prepareBody(w http.ResponseWriter, r *http.Request, d Dialect, route Route,
	body []byte, held *serving) ([]*generation, error) {
	var call *Call
	err := s.inTurn(r.Context(), func() (err error) {
		call, err = route.Parse(body)
		return err
	})
	if err == nil {
		held.call = call
		err = readCacheHeader(call, r)
	}
	recordOf(r).private = err != nil && mayBePrivate(r, body) || err == nil && call.Cache.Private()
	if err != nil {
		return nil, err
	}
	if call.Begun != nil {
		call.Begun(keyName(r))
	}
	if err := limitKeepAlive(r, call); err != nil {
		return nil, err
	}
	if call.Loaded != nil && s.unloaded(call) {
		held.document = func() any { return call.Loaded("", true) }
		return nil, nil
	}
	if call.Loaded == nil {
		if err := checkTaskOf(s.modelsFor(r), call.Model, modelfile.Generate); err != nil {
			return nil, err
		}
	}
	model, err := s.wake(w, r, call, held)
	if err != nil {
		return nil, err
	}
	if call.Loaded != nil {
		held.document = func() any { return call.Loaded(model.ID, s.unloaded(call)) }
		return nil, nil
	}
	if err := checkTask(model.ID, model.Engine.Info().Task, modelfile.Generate); err != nil {
		return nil, err
	}
	if limit, tooLong := s.limitFor(model.Engine.Info().ContextTokens); int64(
		len(body)) > limit {
		return nil, tooLong
	}
	call.ID = cmp.Or(call.ID, generate.NewID(""))
	call.Priority = priorityOf(r, call.Priority)
	call.SetDefaults(s.defaults(model.ID))
	if call.Reads != nil {
		return prepareReads(r.Context(), d, call, model, held)
	}
	prediction, err := call.EncodePrediction(r.Context(), model.Engine,
		model.Engine.Info().ContextTokens)
	if err != nil {
		return nil, err
	}
	var list []*generation
	err = s.inTurn(r.Context(), func() error {
		list, err = encodePrompts(r.Context(), d, call, model, held, prediction)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The text may take megabytes, and the request may wait for long.
	call.Messages, call.Tools, call.Prompt, call.PromptTokens = nil, nil, "", nil
	call.More, call.Prediction = nil, ""
	return list, nil
}

// encodePrompts encodes the prompts of a call and returns a generation for each answer.
func encodePrompts(ctx context.Context, d Dialect, call *Call, model Model, held *serving,
	prediction []int32) ([]*generation, error) {
	n := max(call.N, 1)
	list := make([]*generation, 0, n*(1+len(call.More)))
	for i := range 1 + len(call.More) {
		if i > 0 {
			call.Prompt, call.PromptTokens = call.More[i-1].Text, call.More[i-1].Tokens
		}
		prompt, splits, err := call.EncodeAnswers(ctx, model.Engine,
			model.Engine.Info().ContextTokens, n)
		if err != nil {
			return nil, err
		}
		if len(prompt) == 0 && len(call.Messages) == 0 {
			return nil, emptyPrompt(i, 1+len(call.More))
		}
		for k := range n {
			g := &generation{Call: call, dialect: d, model: model, held: held,
				prompt: prompt, prediction: prediction, number: k}
			if splits != nil {
				g.split = splits[k]
			}
			if call.Echo {
				g.text = call.Prompt
			}
			list = append(list, g)
		}
	}
	return list, nil
}

// emptyPrompt returns the error of plain prompt number i of n. The field has the same name in all
// dialects.
func emptyPrompt(i, n int) error {
	param := "prompt"
	if n > 1 {
		param = fmt.Sprintf("prompt[%d]", i)
	}
	return generate.BadParam(param, "has no tokens, expected at least one")
}

// prepareReads returns a generation for each read of a call.
func prepareReads(ctx context.Context, d Dialect, call *Call, model Model,
	held *serving) ([]*generation, error) {
	reads, err := call.Reads(ctx, &call.Request, model.Engine, model.Engine.Info().ContextTokens)
	if err != nil {
		return nil, err
	}
	list := make([]*generation, len(reads))
	for i := range reads {
		list[i] = &generation{Call: call, dialect: d, model: model, held: held, read: &reads[i]}
		if reads[i].Continues {
			list[i].number = 1
		}
	}
	call.Messages, call.Tools, call.Reads = nil, nil, nil
	return list, nil
}

// unloaded reports whether a call wants its model unloaded and that is so.
func (s *Server) unloaded(call *Call) bool {
	if call.KeepAlive == nil || *call.KeepAlive != 0 {
		return false
	}
	_, err := s.models.Acquire(call.Model)
	return err != nil && problem.From(err).Code == problem.NotRunning
}

// cacheHeader is the request header that says where a request may be cached, in every dialect. It
// overrides the body, because people can add a header to clients whose body they cannot change.
const cacheHeader = "Headroom-Cache"

func readCacheHeader(call *Call, r *http.Request) (err error) {
	// Several headers with different values are refused, as their list in one header is.
	if name := strings.Join(slices.Compact(r.Header.Values(cacheHeader)), ","); name != "" {
		call.Cache, err = generate.ParseCaching(cacheHeader, name)
	}
	return err
}

// mayBePrivate reports whether a request that is not valid may have asked to be private.
func mayBePrivate(r *http.Request, body []byte) bool {
	return r.Header.Get(cacheHeader) != "" || bytes.Contains(body, []byte(`"cache"`)) ||
		bytes.Contains(body, []byte(`"store"`))
}

// fingerprint returns what names the program, the model and the formats that an answer depends on.
func (s *Server) fingerprint(m Model) string {
	info := m.Engine.Info()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s\x00%s\x00%s", s.version, m.ID,
		info.Quantization, info.Device, info.KVFormat, info.StateFormat))
	return "fp_" + hex.EncodeToString(sum[:5])
}

// output returns the output for the answers to a request, of which g is the first. prompt returns
// the tokens of the current answer's prompt.
func (s *Server) output(w http.ResponseWriter, r *http.Request, g *generation,
	prompt func() generate.Usage) response {
	head := generate.Head{ID: g.ID, Model: g.model.Name(), Created: time.Now(),
		Fingerprint: s.fingerprint(g.model), Cache: g.Cache}
	refuse := func(err error) { s.refuse(w, r, err) }
	if g.Stream {
		return &streamed{w: w, timeout: s.writeTimeout, quiet: s.keepAlive, framing: g.Framing,
			render: func(err error) Event {
				return g.dialect.Error(&requestError{err, recordOf(r).request})
			},
			contended: func() bool {
				now := g.model.Engine.Stats()
				return now.Waiting > now.BackgroundWaiting
			},
			renderer: g.Renderer(head), refuse: refuse, prompt: prompt,
			events: g.held.events}
	}
	return &whole{w: w, ctx: r.Context(), renderer: g.Renderer(head), refuse: refuse}
}

package server

// The handler of requests for a generation. When the handler returns or panics, the engine's
// request has ended or is cancelled.

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"headroom/engine/chat"
	"headroom/engine/generate"
)

// handle returns the handler of a dialect's route.
func (s *Server) handle(d Dialect, route Route) http.HandlerFunc {
	if route.Document != nil {
		return func(w http.ResponseWriter, r *http.Request) {
			document, err := route.Document(r, s.models)
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			writeJSON(w, http.StatusOK, document)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := s.prepare(r, d, route)
		if err != nil {
			if r.Context().Err() != nil && errors.Is(err, r.Context().Err()) {
				err = disconnection(r.Context())
			}
			s.refuse(w, r, err)
			return
		}
		s.generate(w, r, list)
	}
}

// generation is a Call with everything that is needed to submit it.
type generation struct {
	*Call
	dialect Dialect
	model   Model
	prompt  []int32
	text    string         // of the prompt, if it is to be echoed and not a list of tokens
	split   *chat.Splitter // nil: all text is content
}

// prepare parses the request, finds its model and encodes its prompts, of which there is at least
// one.
func (s *Server) prepare(r *http.Request, d Dialect, route Route) ([]*generation, error) {
	limit, tooLong := s.bodyLimit()
	body, err := readBody(r, limit, tooLong)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	built, err := takeBuild(r.Context(), body.Bytes)
	if err != nil {
		return nil, err
	}
	defer built()
	call, err := route.Parse(body.Bytes)
	if err == nil {
		err = readCacheHeader(call, r)
	}
	recordOf(r).private = err != nil && mayBePrivate(r, body.Bytes) ||
		err == nil && call.Cache.Private()
	if err != nil {
		return nil, err
	}
	model, err := s.models.Wake(r.Context(), call.Model)
	if err != nil {
		return nil, err
	}
	call.ID = cmp.Or(call.ID, generate.NewID(""))
	call.SetDefaults(s.defaults(model.ID))
	list := make([]*generation, 0, 1+len(call.More))
	for i := range 1 + len(call.More) {
		if i > 0 {
			call.Prompt, call.PromptTokens = call.More[i-1].Text, call.More[i-1].Tokens
		}
		prompt, split, err := call.Encode(r.Context(), model.Engine,
			model.Engine.Info().ContextTokens)
		if err != nil {
			return nil, err
		}
		g := &generation{Call: call, dialect: d, model: model, prompt: prompt, split: split}
		if call.Echo {
			g.text = call.Prompt
		}
		list = append(list, g)
	}
	// The text may take megabytes, and the request may wait for long.
	call.Messages, call.Tools, call.Prompt, call.PromptTokens = nil, nil, "", nil
	call.More = nil
	return list, nil
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

// output returns the output for the answers to a request, of which g is the first.
func (s *Server) output(w http.ResponseWriter, r *http.Request, g *generation) response {
	head := generate.Head{ID: g.ID, Model: g.model.ID, Created: time.Now()}
	refuse := func(err error) { s.refuse(w, r, err) }
	if g.Stream {
		return &streamed{w: w, timeout: s.writeTimeout, framing: g.Framing, dialect: g.dialect,
			contended: func() bool { return g.model.Engine.Stats().Waiting > 0 },
			renderer:  g.Renderer(head), refuse: refuse}
	}
	return &whole{w: w, renderer: g.Renderer(head), refuse: refuse}
}

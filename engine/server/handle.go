package server

// The handler of requests for a generation. When the handler returns or panics, the engine's
// request has ended or is cancelled.

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"time"

	"headroom/engine"
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
		g, err := s.prepare(r, route)
		if err != nil {
			if r.Context().Err() != nil && errors.Is(err, r.Context().Err()) {
				err = disconnection(r.Context())
			}
			s.refuse(w, r, err)
			return
		}
		g.dialect = d
		s.generate(w, r, g)
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

// prepare parses the request, finds its model and encodes the prompt.
func (s *Server) prepare(r *http.Request, route Route) (*generation, error) {
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
	prompt, split, err := call.Encode(r.Context(), model.Engine,
		model.Engine.Info().ContextTokens)
	if err != nil {
		return nil, err
	}
	// The text may take megabytes, and the request may wait for long.
	g := &generation{Call: call, model: model, prompt: prompt, split: split}
	if call.Echo {
		g.text = call.Prompt
	}
	call.Messages, call.Tools, call.Prompt, call.PromptTokens = nil, nil, "", nil
	return g, nil
}

// cacheHeader is the request header that says where a request may be cached, in every dialect. It
// overrides the body, because people can add a header to clients whose body they cannot change.
const cacheHeader = "Headroom-Cache"

func readCacheHeader(call *Call, r *http.Request) (err error) {
	if name := r.Header.Get(cacheHeader); name != "" {
		call.Cache, err = generate.ParseCaching(cacheHeader, name)
	}
	return err
}

// mayBePrivate reports whether a request that is not valid may have asked to be private.
func mayBePrivate(r *http.Request, body []byte) bool {
	return r.Header.Get(cacheHeader) != "" || bytes.Contains(body, []byte(`"cache"`)) ||
		bytes.Contains(body, []byte(`"store"`))
}

// generate submits a generation and sends its answer.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, g *generation) {
	rec := recordOf(r)
	rec.model, rec.id = g.model.ID, g.ID
	request := engine.Request{
		ID:        g.ID,
		Prompt:    g.prompt,
		MaxTokens: g.MaxTokens,
		Sampling:  g.Sampling(g.model.Engine.Defaults()),
		Stop:      g.Stop,
		ShowTags:  g.split != nil,
		Private:   g.Cache.Private(),
		NoCache:   g.Cache == generate.CacheNone,
		NoAnswer:  g.NoAnswer,
	}
	var echo *echo
	if g.Echo {
		echo = newEcho(g)
		request.ScorePrompt = g.Logprobs
	}
	stream, err := g.model.Engine.Submit(request)
	if err != nil && !lostProcess(err) {
		s.refuse(w, r, err)
		return
	}
	a := &answer{stream: stream, split: g.split, tokenizer: g.model.Engine.Tokenizer(),
		logprobs: g.Logprobs, echo: echo, keepAlive: s.keepAlive, record: rec,
		usage: engine.Usage{PromptTokens: len(g.prompt)}, out: s.output(w, r, g)}
	finished := false
	defer func() {
		if !finished && a.stream != nil {
			a.stream.Cancel() // after a panic, nobody reads the stream
		}
		s.metrics.generation(a.usage, a.reasoningTokens, rec.timing)
	}()
	if err == nil {
		err = a.run(r.Context())
	}
	for moves := 0; moves < maxMoves && lostProcess(err); moves++ {
		if err = s.move(r.Context(), a, g.model.ID, request); err != nil {
			break
		}
		err = a.run(r.Context())
	}
	if err != nil {
		a.abandon(r.Context(), err)
	}
	finished = true
}

// output returns the output for the answer of a generation.
func (s *Server) output(w http.ResponseWriter, r *http.Request, g *generation) output {
	head := generate.Head{ID: g.ID, Model: g.model.ID, Created: time.Now()}
	refuse := func(err error) { s.refuse(w, r, err) }
	if g.Stream {
		return &streamed{w: w, timeout: s.writeTimeout, framing: g.Framing, dialect: g.dialect,
			contended: func() bool { return g.model.Engine.Stats().Waiting > 0 },
			renderer:  g.Renderer(head), refuse: refuse}
	}
	return &whole{w: w, renderer: g.Renderer(head), refuse: refuse}
}

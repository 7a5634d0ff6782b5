package server

// The handler of requests for a generation. When the handler returns or panics, the engine's
// request has ended or is cancelled.

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
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
		g, err := s.prepare(w, r, route)
		if err != nil {
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
	split   *chat.Splitter // nil: all text is content
}

// prepare parses the request, finds its model and encodes the prompt.
func (s *Server) prepare(w http.ResponseWriter, r *http.Request, route Route) (*generation, error) {
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	call, err := route.Parse(body)
	if err != nil {
		return nil, err
	}
	model, err := s.models.Wake(r.Context(), call.Model)
	if err != nil {
		return nil, err
	}
	call.ID = cmp.Or(call.ID, generate.NewID(""))
	call.SetDefaults(s.defaults(model.ID))
	prompt, split, err := call.Encode(model.Engine)
	if err != nil {
		return nil, err
	}
	return &generation{Call: call, model: model, prompt: prompt, split: split}, nil
}

// generate submits a generation and sends its answer.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, g *generation) {
	rec := recordOf(r)
	rec.model, rec.id = g.model.ID, g.ID
	stream, err := g.model.Engine.Submit(engine.Request{
		ID:        g.ID,
		Prompt:    g.prompt,
		MaxTokens: g.MaxTokens,
		Sampling:  g.Sampling(g.model.Engine.Defaults()),
		Stop:      g.Stop,
	})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	a := &answer{stream: stream, split: g.split, tokenizer: g.model.Engine.Tokenizer(),
		logprobs: g.Logprobs, keepAlive: s.keepAlive, record: rec,
		usage: engine.Usage{PromptTokens: len(g.prompt)}, out: s.output(w, r, g)}
	finished := false
	defer func() {
		if !finished {
			stream.Cancel() // after a panic, nobody reads the stream
		}
		s.metrics.generation(a.usage, a.reasoningTokens, rec.timing)
	}()
	a.run(r.Context())
	finished = true
}

// output returns the output for the answer of a generation.
func (s *Server) output(w http.ResponseWriter, r *http.Request, g *generation) output {
	head := generate.Head{ID: g.ID, Model: g.model.ID, Created: time.Now()}
	refuse := func(err error) { s.refuse(w, r, err) }
	if g.Stream {
		return &streamed{w: w, timeout: s.writeTimeout, framing: g.Framing, dialect: g.dialect,
			renderer: g.Renderer(head), refuse: refuse}
	}
	return &whole{w: w, renderer: g.Renderer(head), refuse: refuse}
}

// bodyTimeout is how long a client may take to send a body.
const bodyTimeout = 5 * time.Minute

// readBody reads a body of at most maxBodyBytes. It sets a read deadline and removes it at the end,
// because after that the server reads only to notice that the client disconnects.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer supports deadlines
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem.New(problem.TooLarge, "The request's body is too large",
			"the limit is "+strconv.FormatInt(tooLarge.Limit, 10)+" bytes", "")
	case err != nil:
		return nil, problem.Wrap(problem.BadRequest, err, "The request's body could not be read",
			"")
	}
	return body, nil
}

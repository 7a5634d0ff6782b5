package server

// Text completions, and the part they share with chat: from a prompt to its answer on the wire. The
// engine's work ends with the handler, however that ends.

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/openai"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

func (s *Server) handleCompletion(w http.ResponseWriter, r *http.Request) {
	body, err := s.readBody(w, r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q, err := openai.ParseCompletion(body)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	m, err := s.models.Wake(r.Context(), q.Model)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q.Default(s.defaults(m.ID))
	prompt := q.PromptTokens
	if prompt == nil {
		prompt = m.Engine.Tokenizer().Encode(q.Prompt, tokenizer.EncodeOptions{AddSpecial: true})
	}
	head := newHead("cmpl-", m.ID)
	s.serve(w, r, job{model: m, params: q.Params, head: head, prompt: prompt,
		form: &completionForm{head: head}})
}

// job is a request, ready for the engine.
type job struct {
	model  Model
	params openai.Params
	head   openai.Head
	prompt []int32
	form   form
	split  *chat.Splitter // nil: all text is content
}

// serve runs a job and sends its answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, j job) {
	rec := recordOf(r)
	rec.model, rec.id = j.model.ID, j.head.ID
	stream, err := j.model.Engine.Submit(engine.Request{
		ID:        j.head.ID,
		Prompt:    j.prompt,
		MaxTokens: j.params.MaxTokens,
		Sampling:  Sampling(&j.params, j.model.Engine.Defaults()),
		Stop:      j.params.Stop,
	})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	refuse := func(err error) { s.refuse(w, r, err) }
	a := &answer{stream: stream, split: j.split, tokenizer: j.model.Engine.Tokenizer(),
		logprobs:  j.params.Logprobs,
		keepAlive: s.keepAlive, record: rec, usage: engine.Usage{PromptTokens: len(j.prompt)}}
	if j.params.Stream {
		a.out = &streamed{w: w, timeout: s.writeTimeout, form: j.form,
			includeUsage: j.params.IncludeUsage, refuse: refuse}
	} else {
		a.out = &whole{w: w, form: j.form, refuse: refuse}
	}
	finished := false
	defer func() {
		if !finished {
			stream.Cancel() // a panic on the way: the engine must not work for nobody
		}
		s.metrics.generation(a.usage, a.reasoningTokens, rec.timing)
	}()
	a.run(r.Context())
	finished = true
}

// bodyTime is how long a client may take to send a body.
const bodyTime = 5 * time.Minute

// readBody reads what the limit allows. The deadline ends with it: afterwards, reading means
// waiting for the client to leave.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // not every writer has one
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

func newHead(prefix, model string) openai.Head {
	return openai.Head{ID: newID(prefix), Created: time.Now().Unix(), Model: model}
}

func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return prefix + hex.EncodeToString(b[:])
}

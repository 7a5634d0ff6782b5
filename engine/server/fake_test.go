package server_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/demo/demotest"
	"headroom/engine"
	"headroom/engine/anthropic"
	"headroom/engine/chat"
	"headroom/engine/decisions"
	"headroom/engine/ollama"
	"headroom/engine/openai"
	"headroom/engine/problem"
	"headroom/engine/rerank"
	"headroom/engine/responses"
	"headroom/engine/sample"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// patience is how long a test waits for an event that should happen immediately.
const patience = 20 * time.Second

// fakeEngine answers each request with a stream that the test fills. It has the tokenizer and the
// chat template of the bundled model.
type fakeEngine struct {
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template
	info      engine.Info
	refusal   error               // the error of Submit
	place     func() error        // called by Submit, whose error it returns; nil: none
	streams   chan *fakeStream    // one per request
	script    func(*fakeStream)   // runs at Submit; nil: the test takes the stream from streams
	requests  chan engine.Request // the submitted requests
}

func newFakeEngine(script func(*fakeStream)) *fakeEngine {
	t, c := demotest.Texts()
	return &fakeEngine{tokenizer: t, template: c, script: script,
		streams: make(chan *fakeStream, 16), requests: make(chan engine.Request, 16)}
}

func (e *fakeEngine) Info() engine.Info               { return e.info }
func (e *fakeEngine) Tokenizer() *tokenizer.Tokenizer { return e.tokenizer }
func (e *fakeEngine) Template() *chat.Template        { return e.template }
func (e *fakeEngine) Defaults() sample.Defaults       { return sample.Defaults{} }
func (e *fakeEngine) Stats() engine.Stats {
	return engine.Stats{Running: 2, Waiting: 1, WeightsBytes: 7}
}

func (e *fakeEngine) Submit(q engine.Request) (*engine.Stream, error) {
	if e.refusal != nil {
		return nil, e.refusal
	}
	if e.place != nil {
		if err := e.place(); err != nil {
			return nil, err
		}
	}
	s := &fakeStream{engine: e, request: q, cancelled: make(chan struct{}),
		usage: engine.Usage{PromptTokens: len(q.Prompt)}}
	stream, put := engine.NewStream(q.ID, func(reason engine.FinishReason) {
		s.once.Do(func() {
			s.ended = reason
			close(s.cancelled)
		})
	})
	s.stream, s.put = stream, put
	e.requests <- q
	if e.script != nil {
		e.script(s)
	}
	e.streams <- s
	return stream, nil
}

// fakeStream is the writing end of an engine.Stream.
type fakeStream struct {
	engine    *fakeEngine
	request   engine.Request
	stream    *engine.Stream // the reading end
	put       func(engine.Event)
	cancelled chan struct{} // closed by Cancel or Stop
	once      sync.Once
	ended     engine.FinishReason // by which of them; read it when cancelled is closed
	usage     engine.Usage
}

// prefill reports that done prompt tokens are in the cache, and that cached of them were not
// computed. Between two Prefill events it puts an empty token, which produces no output. Without
// that token, engine.Stream would keep only the last of several unread Prefill events.
func (s *fakeStream) prefill(done, cached int) {
	if s.usage.PromptDoneTokens > 0 {
		s.put(engine.Event{Type: engine.Token, Usage: s.usage})
	}
	s.usage.PromptDoneTokens, s.usage.CachedTokens = done, cached
	s.put(engine.Event{Type: engine.Prefill, Usage: s.usage})
}

// say generates the text token by token. Each token has logprob -0.5 and itself as the only
// alternative.
func (s *fakeStream) say(text string) {
	certain := s.engine.tokenizer.NewStream(true)
	for _, id := range s.engine.tokenizer.Encode(text, tokenizer.EncodeOptions{}) {
		s.token(id, certain.Add(id))
	}
}

func (s *fakeStream) token(id int32, text string) {
	s.usage.CompletionTokens++
	s.put(engine.Event{Type: engine.Token, Token: id, Text: text, Logprob: -0.5,
		Top: []sample.TokenLogprob{{Token: id, Logprob: -0.5}}, Usage: s.usage})
}

func (s *fakeStream) done(finish engine.FinishReason, err error) {
	s.put(engine.Event{Type: engine.Done, Finish: finish, Err: err, Usage: s.usage,
		Timing: engine.Timing{FirstToken: 20 * time.Millisecond, Decode: 30 * time.Millisecond,
			DecodeSteps: 3}})
}

// fakeModels has one model, "demo".
type fakeModels struct {
	engine   server.Engine
	err      error // the error of every Acquire
	unlisted bool
}

func (m *fakeModels) Listed() bool { return !m.unlisted }

func (m *fakeModels) Acquire(id string) (server.Model, error) {
	switch {
	case m.err != nil:
		return server.Model{}, m.err
	case id == "" || id == "demo":
		return server.Model{ID: "demo", Engine: m.engine}, nil
	}
	return server.Model{}, problem.New(problem.ModelNotFound, "There is no model \""+id+"\" here",
		"there is demo", "")
}

func (m *fakeModels) Wake(_ context.Context, id string) (server.Model, error) {
	return m.Acquire(id)
}

func (m *fakeModels) List() []server.ModelInfo {
	one := server.ModelInfo{ID: "demo", ContextTokens: 4096, State: server.Unloaded}
	if m.err == nil && m.engine != nil {
		one.State, one.Engine = server.Loaded, m.engine
	}
	return []server.ModelInfo{one}
}

// dialects are the dialects that Headroom serves.
var dialects = []server.Dialect{openai.Dialect{}, anthropic.Dialect{}, ollama.Dialect{},
	responses.New(), decisions.Dialect{}, rerank.Dialect{}}

// start serves the engine until the test ends.
func start(t *testing.T, e *fakeEngine, o server.Options) *httptest.Server {
	t.Helper()
	if o.Models == nil {
		o.Models = &fakeModels{engine: e}
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = time.Hour // no keep-alive comments unless a test needs them
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dialects == nil {
		o.Dialects = dialects
	}
	s := httptest.NewServer(server.New(o))
	t.Cleanup(s.Close)
	return s
}

// post sends a body and returns the response.
func post(t *testing.T, url, body string, headers ...string) (status int, header http.Header,
	text string) {
	t.Helper()
	return do(t, http.MethodPost, url, body, headers...)
}

func do(t *testing.T, method, url, body string, headers ...string) (status int, header http.Header,
	text string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(data)
}

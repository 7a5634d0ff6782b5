package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headroom/engine/problem"
	"headroom/engine/server"
)

// slowModels has a model that is loaded when ready is closed.
type slowModels struct {
	fakeModels
	ready chan struct{}

	mu       sync.Mutex
	held     int
	released []*time.Duration
	pinned   bool // releasing it does not unload it
}

func (m *slowModels) Wake(ctx context.Context, id string) (server.Model, error) {
	select {
	case <-ctx.Done():
		return server.Model{}, ctx.Err()
	case <-m.ready:
	}
	got, err := m.Acquire(id)
	if err != nil {
		return got, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held++
	got.Release = func(keepAlive *time.Duration) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.released = append(m.released, keepAlive)
		if keepAlive != nil && *keepAlive == 0 && !m.pinned {
			m.err = problem.New(problem.NotRunning, "It is unloaded", "", "")
		}
	}
	return got, nil
}

// TestWaitingStream: the stream of a request that waits for its model gets comments, then the
// answer, or an error as an event. A request without a stream gets the status of the error.
func TestWaitingStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		script func(*fakeStream)
		want   string
	}{
		{"answer", nil, func(s *fakeStream) { s.say("late"); s.done("stop", nil) },
			`"text":"l"`},
		{"no model", problem.New(problem.DoesNotFit, "It does not fit", "", ""), nil,
			"does_not_fit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(c.script)
			m := &slowModels{fakeModels: fakeModels{engine: e}, ready: make(chan struct{})}
			s := start(t, e, server.Options{Models: m, KeepAlive: time.Millisecond})
			lines, _ := open(t, s.URL+"/v1/completions", `{"prompt":"hi","stream":true}`)
			waitFor(t, lines, ": waiting for the model")
			waitFor(t, lines, ": waiting for the model")
			m.err = c.err
			close(m.ready)
			waitFor(t, lines, c.want)
			for lines.Scan() {
			}
			if c.err == nil {
				return
			}
			status, _, text := post(t, s.URL+"/v1/completions", `{"prompt":"hi","stream":true}`)
			if status != 507 || !strings.Contains(text, c.want) {
				t.Errorf("without waiting: %d %s", status, text)
			}
		})
	}
}

// TestWaitingSigns: a stream that waits for its model gets its dialect's own sign of life every
// 5 s, then the answer, or the error as an event.
func TestWaitingSigns(t *testing.T) {
	const comment = ": waiting for the model\n\n"
	for _, c := range []struct{ path, body, sign, begin, failed string }{
		{"/v1/chat/completions", hiStreamed, comment, `data: {"id"`, `data: {"error":{"message"`},
		{responsesPath, responsesBody(responsesStream), comment, "event: response.created\n",
			"event: response.created\n"}, // then response.failed
		{messagesPath, messagesBody(messagesStream), "event: ping\ndata: {\"type\":\"ping\"}\n\n",
			"event: message_start\n", "event: error\n"},
		{"/api/chat", ollamaChat(), `"message":{"role":"assistant","content":""},"done":false}` +
			"\n", `{"model"`, `{"error"`},
		{"/api/generate", `{"model":"demo","prompt":"hi"}`, `"response":"","done":false}` + "\n",
			`{"model"`, `{"error"`},
		{"/api/generate", `{"model":"demo"}`, "", `{"model"`, `{"error"`}, // one document
	} {
		full := problem.New(problem.DoesNotFit, "It does not fit", "", "")
		for _, err := range []error{nil, full} {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeEngine(func(s *fakeStream) { s.say("late"); s.done("stop", nil) })
				m := &slowModels{fakeModels: fakeModels{engine: e}, ready: make(chan struct{})}
				s := server.New(server.Options{Models: m, Dialects: dialects,
					Log: slog.New(slog.DiscardHandler)})
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
					"http://localhost"+c.path, strings.NewReader(c.body))
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					s.ServeHTTP(w, r)
				}()
				time.Sleep(11 * time.Second)
				synctest.Wait()
				waited := w.Body.String()
				if n := strings.Count(waited, c.sign); c.sign != "" && n != 2 ||
					c.sign == "" && waited != "" {
					t.Errorf("%s: %d signs of life in 11 s, expected 2: %s", c.path, n, waited)
				}
				m.err = err
				close(m.ready)
				<-answered
				want := c.begin
				if err != nil {
					want = c.failed
				}
				if rest := w.Body.String()[len(waited):]; !strings.HasPrefix(rest, want) {
					t.Errorf("%s, %v: after that came %s", c.path, err, rest)
				}
			})
		}
	}
}

// TestWaitingClientLeaves: a client that disconnects no longer waits for its model.
func TestWaitingClientLeaves(t *testing.T) {
	e := newFakeEngine(nil)
	ended := make(chan struct{})
	m := &slowModels{fakeModels: fakeModels{engine: e}, ready: make(chan struct{})}
	s := start(t, e, server.Options{Models: wakeEnds{m, ended}, KeepAlive: time.Millisecond})
	lines, leave := open(t, s.URL+"/v1/completions", `{"prompt":"hi","stream":true}`)
	waitFor(t, lines, ": waiting for the model")
	leave()
	waitClosed(t, ended, "the end of Wake")
}

// wakeEnds closes ended when Wake returns.
type wakeEnds struct {
	*slowModels
	ended chan struct{}
}

func (m wakeEnds) Wake(ctx context.Context, id string) (server.Model, error) {
	defer close(m.ended)
	return m.slowModels.Wake(ctx, id)
}

// keeping is a toy dialect whose requests say how long their model stays loaded.
type keeping struct{ toy }

func (d keeping) Routes() []server.Route {
	return []server.Route{{Pattern: "POST /keep", Parse: func(body []byte) (*server.Call, error) {
		call, err := d.parse(body)
		if strings.Contains(string(body), "minute") {
			call.KeepAlive = new(time.Minute)
		}
		return call, err
	}}}
}

// TestRelease: a request holds its model until its answer has ended, however it ends, and says how
// long the model stays loaded. A request that moves to another process holds that, too.
func TestRelease(t *testing.T) {
	crash := problem.New(problem.Crashed, "It ended", "", "")
	ends := 0
	m := &slowModels{ready: make(chan struct{})}
	close(m.ready)
	e := newFakeEngine(func(s *fakeStream) {
		m.mu.Lock()
		if len(m.released) == m.held {
			t.Error("the model is released before the answer")
		}
		m.mu.Unlock()
		if ends > 0 {
			ends--
			s.done("error", crash)
			return
		}
		s.say("a")
		s.done("stop", nil)
	})
	m.engine = e
	s := start(t, e, server.Options{Models: m,
		Dialects: append([]server.Dialect{keeping{}}, dialects...)})
	check := func(what, path, body string, status, models int, keepAlive time.Duration) {
		t.Helper()
		m.mu.Lock()
		m.held, m.released = 0, nil
		m.mu.Unlock()
		if got, _, text := post(t, s.URL+path, body); got != status {
			t.Errorf("%s: %d %s", what, got, text)
		}
		for wait := time.Now(); ; { // the handler may still be returning
			m.mu.Lock()
			held, released := m.held, m.released
			m.mu.Unlock()
			if len(released) == models && held == models {
				for _, got := range released {
					if keepAlive > 0 != (got != nil) || got != nil && *got != keepAlive {
						t.Errorf("%s: keep-alive %v, want %v", what, got, keepAlive)
					}
				}
				return
			}
			if time.Since(wait) > patience {
				t.Fatalf("%s: %d models are held and %d released, want %d", what, held,
					len(released), models)
			}
		}
	}
	check("an answer", "/v1/completions", `{"prompt":"a"}`, 200, 1, 0)
	check("keep-alive", "/keep", "a minute", 200, 1, time.Minute)
	e.refusal = problem.New(problem.Busy, "The queue is full", "", "")
	check("refused", "/keep", "a minute", http.StatusTooManyRequests, 1, time.Minute)
	e.refusal = nil
	ends = 1
	check("moved", "/keep", "a minute", 200, 2, time.Minute)
	e.info.ContextTokens = 4
	check("too long", "/v1/completions", `{"prompt":"a b c d e f g h"}`, 400, 1, 0)
}

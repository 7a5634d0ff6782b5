package server_test

// Ollama's API through the server.

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// ollamaChat returns a request to /api/chat with further parameters, each after a comma.
func ollamaChat(params ...string) string {
	return `{"model":"demo","messages":[{"role":"user","content":"hi"}]` +
		strings.Join(params, "") + `}`
}

// TestOllamaTranscripts compares HTTP responses with testdata/NAME.txt, byte for byte.
func TestOllamaTranscripts(t *testing.T) {
	const (
		whole    = `,"stream":false`
		noThink  = `,"think":false`
		logprobs = `,"logprobs":true,"top_logprobs":1`
		tools    = `,"tools":[{"type":"function","function":{"name":"set_timer","parameters":` +
			`{"type":"object","properties":{"minutes":{"type":"integer"}}}}}]`
		chat, generate = "/api/chat", "/api/generate"
	)
	say := func(finish engine.FinishReason, text string) func(*fakeStream) {
		return func(s *fakeStream) {
			s.prefill(10, 4)
			s.say(text)
			s.done(finish, nil)
		}
	}
	fails := func(s *fakeStream) { s.done(engine.FinishError, errors.New("the file is gone")) }
	for _, c := range []struct {
		name, path, body string
		script           func(*fakeStream)
	}{
		{"ollama_chat_stream", chat, ollamaChat(), say(engine.FinishStop,
			"It asks.\n</think>\n\nYes <b>")},
		{"ollama_chat_stream_length", chat, ollamaChat(noThink), say(engine.FinishLength, "a b")},
		{"ollama_chat_stream_tools", chat, ollamaChat(tools, noThink), say(engine.FinishStop,
			"Yes:\n\n"+timerCall+"\n"+timerCall)},
		{"ollama_chat_stream_logprobs", chat, ollamaChat(noThink, logprobs),
			say(engine.FinishStop, "Yes é")},
		{"ollama_chat_stream_stop", chat, ollamaChat(noThink, `,"options":{"stop":["END"]}`),
			say(engine.FinishStop, "One END two")},
		{"ollama_chat_stream_error_first", chat, ollamaChat(), fails},
		{"ollama_chat_stream_error_late", chat, ollamaChat(noThink), func(s *fakeStream) {
			s.say("a")
			fails(s)
		}},
		{"ollama_chat_whole", chat, ollamaChat(whole), say(engine.FinishStop,
			"Hm.\n</think>\n\nYes, \"é\"")},
		{"ollama_chat_whole_tools", chat, ollamaChat(whole, tools, noThink),
			say(engine.FinishStop, timerCall)},
		{"ollama_chat_whole_error", chat, ollamaChat(whole), fails},
		{"ollama_chat_load", chat, `{"model":"demo"}`, nil},
		{"ollama_generate_stream", generate, `{"model":"demo:latest","prompt":"hi"}`,
			say(engine.FinishStop, "It asks.\n</think>\n\nYes")},
		{"ollama_generate_raw", generate, `{"prompt":"hi","raw":true` + whole + logprobs + `}`,
			say(engine.FinishLength, "<think>a")},
		{"ollama_generate_load", generate, `{"prompt":""}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, nil, server.Options{
				Models: namedModels{&fakeModels{engine: newFakeEngine(c.script)}}})
			compareTranscript(t, c.name, s.URL+c.path, c.body)
		})
	}
}

// namedModels finds models by names with a tag.
type namedModels struct{ *fakeModels }

func (m namedModels) Wake(ctx context.Context, id string) (server.Model, error) {
	return m.fakeModels.Wake(ctx, strings.TrimSuffix(id, ":latest"))
}

// TestOllamaErrors: statuses, and bodies that Ollama's clients know.
func TestOllamaErrors(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/api/chat", `{`, 400, "The body is not valid JSON"},
		{"POST", "/api/chat", ollamaChat(`,"format":"xml"`), 400,
			`format: must be "json" or a JSON Schema`},
		{"POST", "/api/generate", `{"prompt":"a","images":["aGk="]}`, 400, "images: is not"},
		{"POST", "/api/chat", `{"model":"x","messages":[]}`, 404, `There is no model "x" here`},
		{"POST", "/api/chat", `{"model":"x","messages":[],"keep_alive":0}`, 404,
			`There is no model "x" here`},
		{"POST", "/api/chat", ollamaChat(`,"x":"` + strings.Repeat("x", 999) + `"`), 413,
			"The request's body is too large"},
		{"POST", "/api/embed", `{}`, 400, "input: is missing"},
		{"POST", "/api/embeddings", `{}`, 400, "prompt: is missing"},
		{"POST", "/api/push", `{}`, 400, "Models cannot be uploaded"},
		{"POST", "/api/create", `{}`, 400, "Models cannot be created"},
		{"POST", "/api/copy", `{}`, 400, "Models cannot be copied"},
		{"DELETE", "/api/delete", `{}`, 400, "model: is missing"},
		{"POST", "/api/show", `{"model":"x"}`, 404, `There is no model "x" here`},
		{"PUT", "/api/chat", `{}`, 405, "PUT is not possible at /api/chat"},
		{"GET", "/api/nothing", ``, 404, "There is nothing at GET /api/nothing"},
		{"POST", "/api/blobs/sha256:1", ``, 404, "There is nothing at POST /api/blobs/"},
	} {
		s := start(t, newFakeEngine(nil), server.Options{MaxBodyBytes: 900})
		status, _, text := do(t, c.method, s.URL+c.path, c.body)
		var body struct{ Error string }
		if json.Unmarshal([]byte(text), &body) != nil || status != c.status ||
			!strings.HasPrefix(body.Error, c.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, status, text, c.status,
				c.want)
		}
	}
}

// TestOllamaProbes: what clients ask first, with GET and HEAD.
func TestOllamaProbes(t *testing.T) {
	s := start(t, newFakeEngine(nil), server.Options{})
	for path, want := range map[string]string{"/api/tags": `"name":"demo:latest"`,
		"/api/version": `{"version":"0.`, "/api/ps": `"context_length":4096`,
		"/api/tags/": `"name":"demo:latest"`} {
		if status, _, text := do(t, "GET", s.URL+path, ""); status != 200 ||
			!strings.Contains(text, want) {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
		if status, _, text := do(t, "HEAD", s.URL+path, ""); status != 200 || text != "" {
			t.Errorf("HEAD %s: %d %s", path, status, text)
		}
	}
	status, _, text := post(t, s.URL+"/api/show", `{"model":"demo"}`)
	if status != 200 || !strings.Contains(text, `["completion","tools","thinking"]`) {
		t.Errorf("show: %d %s", status, text)
	}
}

// TestOllamaKeepAlive: the model is held until the answer has ended, and released with keep_alive.
// A request without messages loads it, or unloads it, and computes nothing.
func TestOllamaKeepAlive(t *testing.T) {
	for _, c := range []struct {
		name, params string
		err          error // of models
		keep         *time.Duration
		held         int
		want         string
	}{
		{"an answer", `"messages":[{"role":"user","content":"hi"}],"keep_alive":"5m"`, nil,
			new(5 * time.Minute), 1, `"done_reason":"stop"`},
		{"an answer without it", `"messages":[{"role":"user","content":"hi"}]`, nil, nil, 1,
			`"done_reason":"stop"`},
		{"loading", `"keep_alive":-1`, nil, new(time.Duration(-1)), 1, `"done_reason":"load"`},
		{"unloading", `"keep_alive":0`, nil, new(time.Duration(0)), 1, `"done_reason":"unload"`},
		{"unloading a pinned model", `"keep_alive":0`, nil, new(time.Duration(0)), 1,
			`"done_reason":"load"`},
		{"unloading a model that is not loaded", `"keep_alive":0`,
			problem.New(problem.NotRunning, "No", "", ""), nil, 0, `"done_reason":"unload"`},
		{"loading a model that does not fit", `"keep_alive":9`,
			problem.New(problem.DoesNotFit, "No", "", ""), nil, 0, `{"error":"No"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
			m := &slowModels{fakeModels: fakeModels{engine: e, err: c.err},
				ready: make(chan struct{}), pinned: strings.Contains(c.name, "pinned")}
			close(m.ready)
			s := start(t, e, server.Options{Models: m})
			_, _, text := post(t, s.URL+"/api/chat", `{"model":"demo",`+c.params+`}`)
			if !strings.Contains(text, c.want) {
				t.Errorf("got %s, want %s", text, c.want)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.held != c.held || len(m.released) != c.held {
				t.Fatalf("held %d times, released %d times, want %d", m.held, len(m.released),
					c.held)
			}
			if c.held > 0 && (m.released[0] == nil) != (c.keep == nil) ||
				c.keep != nil && *m.released[0] != *c.keep {
				t.Errorf("released with %v, want %v", m.released[0], c.keep)
			}
			if generated := strings.Contains(c.params, "hi"); (len(e.requests) > 0) != generated {
				t.Errorf("%d requests to the engine", len(e.requests))
			}
		})
	}
}

// releasedWriter fails the test if the answer is written before the model is released.
type releasedWriter struct {
	*httptest.ResponseRecorder
	t      *testing.T
	models *slowModels
}

func (w releasedWriter) Write(data []byte) (int, error) {
	w.models.mu.Lock()
	defer w.models.mu.Unlock()
	if len(w.models.released) == 0 {
		w.t.Error("the model is not released yet")
	}
	return w.ResponseRecorder.Write(data)
}

// TestOllamaUnloadsFirst: who reads that a model is unloaded does not find it loaded.
func TestOllamaUnloadsFirst(t *testing.T) {
	m := &slowModels{fakeModels: fakeModels{engine: newFakeEngine(nil)},
		ready: make(chan struct{})}
	close(m.ready)
	s := server.New(server.Options{Models: m, Dialects: dialects,
		Log: slog.New(slog.DiscardHandler)})
	w := releasedWriter{httptest.NewRecorder(), t, m}
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://localhost/api/generate", strings.NewReader(`{"model":"demo","keep_alive":0}`)))
	if text := w.Body.String(); !strings.Contains(text, `"done_reason":"unload"`) {
		t.Errorf("got %s", text)
	}
}

// TestOllamaPull: a download is followed in lines, or in one answer at its end.
func TestOllamaPull(t *testing.T) {
	const line = `{"status":"pulling o/m","digest":"sha256:` +
		`fded0109317f4ffebe88eb6dfafd532b3297057d2b04fbed61ba82b97721a102",`
	steps := []server.Progress{{}, {TotalBytes: 9}, {File: "a", DoneBytes: 4, TotalBytes: 9}}
	for _, c := range []struct {
		name, body  string
		steps       []server.Progress
		err         error
		status      int
		contentType string
		want        string
	}{
		{"stream", `{"model":"o/m"}`, steps, nil, 200, "application/x-ndjson",
			`{"status":"pulling manifest"}` + "\n" + line + `"total":9}` + "\n" + line +
				`"total":9,"completed":4}` + "\n" + `{"status":"success"}` + "\n"},
		{"at once", `{"name":"o/m","stream":false}`, steps, nil, 200, "application/x-ndjson",
			`{"status":"success"}` + "\n"},
		{"error", `{"model":"o/m","stream":true}`, nil,
			problem.New(problem.Upstream, "There is no o/m", "", ""), 502, "application/json",
			`{"error":"There is no o/m"}` + "\n"},
		{"late error", `{"model":"o/m"}`, steps[:1],
			problem.New(problem.DiskFull, "The disk is full", "", ""), 200,
			"application/x-ndjson", `{"status":"pulling manifest"}` + "\n" +
				`{"error":"The disk is full"}` + "\n"},
		{"no name", `{}`, nil, nil, 400, "application/json", `{"error":"model: is missing"}` + "\n"},
		{"not JSON", `{"model":"o/m","stream":1}`, nil, nil, 400, "application/json",
			`{"error":"stream: expected a boolean, got a number"}` + "\n"},
	} {
		pull := func(_ context.Context, name string, report func(server.Progress) error) error {
			if name != "o/m" {
				t.Errorf("%s: pulls %q", c.name, name)
			}
			for _, step := range c.steps {
				if err := report(step); err != nil {
					t.Error(err)
				}
			}
			return c.err
		}
		s := start(t, newFakeEngine(nil), server.Options{Pull: pull})
		status, header, text := post(t, s.URL+"/api/pull", c.body)
		if status != c.status || header.Get("Content-Type") != c.contentType || text != c.want {
			t.Errorf("%s: got %d %s %s, want %d %s %s", c.name, status,
				header.Get("Content-Type"), text, c.status, c.contentType, c.want)
		}
	}
	s := start(t, newFakeEngine(nil), server.Options{})
	if status, _, text := post(t, s.URL+"/api/pull", `{"model":"o/m"}`); status != 400 ||
		text != `{"error":"This server downloads no models"}`+"\n" {
		t.Errorf("without downloads: %d %s", status, text)
	}
}

// TestOllamaDelete: the model that a body names is deleted, or the error says why not.
func TestOllamaDelete(t *testing.T) {
	for _, c := range []struct {
		body   string
		err    error
		status int
		want   string
	}{
		{`{"model":"o/m:latest"}`, nil, 200, `{"status":"success"}`},
		{`{"name":"o/m:latest"}`, nil, 200, `{"status":"success"}`},
		{`{"model":"o/m:latest"}`, problem.New(problem.Forbidden, "No", "", ""), 403,
			`{"error":"No"}`},
		{`{"model":""}`, nil, 400, `{"error":"model: is missing"}`},
	} {
		var deleted []string
		s := start(t, newFakeEngine(nil), server.Options{Delete: func(name string) error {
			deleted = append(deleted, name)
			return c.err
		}})
		status, _, text := do(t, "DELETE", s.URL+"/api/delete", c.body)
		if status != c.status || text != c.want+"\n" {
			t.Errorf("%s: got %d %s, want %d %s", c.body, status, text, c.status, c.want)
		}
		if (status != 400) != slices.Equal(deleted, []string{"o/m:latest"}) {
			t.Errorf("%s: deletes %q", c.body, deleted)
		}
	}
	s := start(t, newFakeEngine(nil), server.Options{})
	if status, _, text := do(t, "DELETE", s.URL+"/api/delete", `{"model":"m"}`); status != 400 ||
		text != `{"error":"This server deletes no models"}`+"\n" {
		t.Errorf("without deletion: %d %s", status, text)
	}
}

// TestOllamaPings: while a prompt is computed, empty parts of the answer keep the connection alive.
func TestOllamaPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(nil)
		s := server.New(server.Options{Models: &fakeModels{engine: e}, Dialects: dialects,
			Log: slog.New(slog.DiscardHandler)})
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://localhost/api/chat", strings.NewReader(ollamaChat()))
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			s.ServeHTTP(w, r)
		}()
		stream := <-e.streams
		time.Sleep(11 * time.Second) // 1 s until the stream begins, then two pings
		synctest.Wait()
		lines := strings.Split(w.Body.String(), "\n")
		const ping = `"message":{"role":"assistant","content":""},"done":false}`
		if len(lines) != 3 || !strings.HasSuffix(lines[0], ping) ||
			!strings.HasSuffix(lines[1], ping) {
			t.Errorf("got %q, want two pings", lines)
		}
		stream.done(engine.FinishStop, nil)
		<-answered
	})
}

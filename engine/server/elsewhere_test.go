package server_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"headroom/app/keys"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// elsewhere answers as a test says.
type elsewhere struct {
	off    bool
	answer func(w http.ResponseWriter, r *http.Request, a *server.Asked) (bool, error)
}

func (e *elsewhere) Active() bool { return !e.off }

func (e *elsewhere) Answer(w http.ResponseWriter, r *http.Request, a *server.Asked) (bool, error) {
	return e.answer(w, r, a)
}

// TestElsewhere: a request is handed on as it has arrived, before its fields are checked. The log
// and the metrics say which machine has answered.
func TestElsewhere(t *testing.T) {
	var log bytes.Buffer
	var got *server.Asked
	e := &elsewhere{answer: func(w http.ResponseWriter, _ *http.Request, a *server.Asked) (bool,
		error) {
		got = a
		a.Report("desk", "other/model")
		a.Used(guard.Used{PromptTokens: 3})
		a.Release()
		_, err := io.WriteString(w, "there")
		return true, err
	}}
	s := start(t, newFakeEngine(nil), server.Options{Elsewhere: e,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	for path, pattern := range map[string]string{"/v1/chat/completions": "/v1/chat/completions",
		"/chat/completions/": "/v1/chat/completions", "/v1/embeddings": "/v1/embeddings"} {
		const body = `{"model":"elsewhere","unknown":[1]}`
		status, _, text := post(t, s.URL+path, body, "User-Agent", "agent/1")
		if status != http.StatusOK || text != "there" || got.Pattern != "POST "+pattern ||
			string(got.Body) != body || got.Client != "agent" {
			t.Errorf("%s: %d %s, %+v", path, status, text, got)
		}
	}
	if text := log.String(); !strings.Contains(text, `machine=desk model=other/model`) {
		t.Error(text)
	}
	if _, _, text := do(t, "GET", s.URL+"/metrics", ""); !strings.Contains(text,
		`headroom_machine_requests_total{machine="desk"} 3`) {
		t.Error("the metrics do not count the requests")
	}
}

// TestElsewherePrompt: the tokens of a prompt, and where its messages end, are known without the
// engine. What has no single prompt says so.
func TestElsewherePrompt(t *testing.T) {
	var tokens []int32
	var ends []int
	var failed error
	e := &elsewhere{answer: func(w http.ResponseWriter, _ *http.Request, a *server.Asked) (bool,
		error) {
		tokens, ends, failed = a.Prompt()
		_, err := io.WriteString(w, "there")
		return true, err
	}}
	fake := newFakeEngine(nil)
	s := start(t, fake, server.Options{Elsewhere: e})
	post(t, s.URL+"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
	if failed != nil || len(tokens) == 0 || len(ends) < 4 {
		t.Fatalf("%v, %v, %v", tokens, ends, failed)
	}
	for i, token := range tokens {
		if special := fake.tokenizer.IsSpecial(token); special && (!contains(ends, i) ||
			!contains(ends, i+1)) {
			t.Errorf("the special token %d at %d is not among %v", token, i, ends)
		}
	}
	for _, body := range []string{`{"prompt":["a","b"]}`, `{"prompt":3}`, `{"model":"no","prompt":"a"}`,
		`{`} {
		if post(t, s.URL+"/v1/completions", body); failed == nil {
			t.Errorf("%s has the prompt %v", body, tokens)
		}
	}
	if len(fake.requests) > 0 {
		t.Error("the engine got a request")
	}
}

func contains(list []int, n int) bool {
	for _, one := range list {
		if one == n {
			return true
		}
	}
	return false
}

// TestElsewhereErrors: an error has the form of the dialect, whole and as an event of a stream.
func TestElsewhereErrors(t *testing.T) {
	p := problem.New(problem.Upstream, "The machine is gone", "", "")
	var event string
	e := &elsewhere{answer: func(_ http.ResponseWriter, _ *http.Request, a *server.Asked) (bool,
		error) {
		contentType := "text/event-stream"
		if strings.HasPrefix(a.Pattern, "POST /api/") {
			contentType = "application/x-ndjson"
		}
		event = string(a.ErrorEvent(contentType, p))
		return false, p
	}}
	s := start(t, newFakeEngine(nil), server.Options{Elsewhere: e})
	for path, want := range map[string]string{
		"/v1/chat/completions": `data: {"error":{"message":"The machine is gone`,
		"/v1/messages":         "event: error\ndata: {\"type\":\"error\",",
		"/v1/responses":        "event: error\ndata: {",
		"/api/chat":            `{"error":"The machine is gone`,
	} {
		status, _, text := post(t, s.URL+path, `{"messages":[]}`)
		if status != http.StatusBadGateway || !strings.Contains(text, "The machine is gone") ||
			!strings.HasPrefix(event, want) {
			t.Errorf("%s: %d %s, event %q", path, status, text, event)
		}
	}
}

// TestElsewhereNot: what this machine answers is answered as without others, and what a request may
// not do here is not asked elsewhere.
func TestElsewhereNot(t *testing.T) {
	asked := 0
	e := &elsewhere{answer: func(http.ResponseWriter, *http.Request, *server.Asked) (bool, error) {
		asked++
		return false, nil
	}}
	fake := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, fake, server.Options{Elsewhere: e, Guard: &guard.Guard{APIKey: "k"}})
	const body = `{"messages":[{"role":"user","content":"hi"}]}`
	if status, _, _ := post(t, s.URL+"/v1/chat/completions", body); status != 401 || asked != 0 {
		t.Errorf("without a key: %d, asked %d times", status, asked)
	}
	for _, off := range []bool{false, true} {
		e.off, asked = off, 0
		status, _, text := post(t, s.URL+"/v1/chat/completions", body, "X-Api-Key", "k")
		if status != 200 || (asked == 0) != off {
			t.Errorf("off %t: %d %s, asked %d times", off, status, text, asked)
		}
	}
	e.off = false
	do(t, "GET", s.URL+"/v1/models", "", "X-Api-Key", "k")
	if asked != 0 {
		t.Error("a list was asked elsewhere")
	}
}

// TestElsewhereKeepAlive: who holds a named key does not unload models of other machines either.
func TestElsewhereKeepAlive(t *testing.T) {
	asked := 0
	e := &elsewhere{answer: func(w http.ResponseWriter, _ *http.Request, _ *server.Asked) (bool,
		error) {
		asked++
		_, err := io.WriteString(w, "there")
		return true, err
	}}
	url, store, _ := withKeys(t, newFakeEngine(nil), server.Options{Elsewhere: e})
	key := addKey(t, store, "one", keys.Limits{})
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/api/generate", `{"model":"far","keep_alive":0}`, 403},
		{"/api/generate", `{"model":"far","keep\u005falive":"0s","prompt":""}`, 403},
		{"/api/chat", `{"model":"far","keep_alive":"0","messages":[]}`, 403},
		{"/api/generate", `{"model":"far"}`, 200},
		{"/api/generate", `{"model":"far","keep_alive":"5m"}`, 200},
		{"/api/generate", `{"model":"far","keep_alive":0,"prompt":"x"}`, 200},
		{"/v1/chat/completions", `{"model":"far","keep_alive":0,"unknown":{}}`, 200},
	} {
		asked = 0
		status, _, text := post(t, url+c.path, c.body, "X-Api-Key", key)
		if status != c.status || (asked > 0) != (status == 200) {
			t.Errorf("%s: %d %s, asked %d times", c.body, status, text, asked)
		}
	}
}

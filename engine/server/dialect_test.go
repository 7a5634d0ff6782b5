package server_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"headroom/engine/generate"
	"headroom/engine/server"
)

// toy is a complete dialect. Its only route is POST /toy, with the prompt as the body. A "+" before
// the prompt requests a stream.
type toy struct{ framing server.Framing }

func (d toy) Routes() []server.Route {
	return []server.Route{{Pattern: "POST /toy", Parse: d.parse}}
}

func (d toy) parse(body []byte) (*server.Call, error) {
	prompt, stream := strings.CutPrefix(string(body), "+")
	return &server.Call{Framing: d.framing,
		Request:  generate.Request{Prompt: prompt, Stream: stream},
		Renderer: func(generate.Head) server.Renderer { return d }}, nil
}

func (toy) Error(err error) server.Event {
	return server.Event{Name: "oops", Data: "toy: " + err.Error()}
}
func (toy) Whole(a generate.Answer) any { return []string{a.Content, string(a.Finish)} }
func (toy) Start() []server.Event       { return nil }
func (toy) Delta(d generate.Delta) []server.Event {
	return []server.Event{{Data: d.Content}}
}
func (toy) Finish(r generate.FinishReason, _ generate.Usage) []server.Event {
	return []server.Event{{Name: "end", Data: r}}
}

// TestToyDialect checks that a new dialect needs no change to shared code. It answers with whole
// documents and with streams, in both framings, and renders the errors of its route. The first
// dialect renders the errors of unknown addresses.
func TestToyDialect(t *testing.T) {
	for _, c := range []struct {
		name    string
		framing server.Framing
		body    string
		status  int
		want    string
	}{
		{"whole", server.ServerSentEvents, "hi", 200, `["one two","stop"]` + "\n"},
		{"streamed", server.ServerSentEvents, "+hi", 200,
			"data: \"one\"\n\ndata: \" two\"\n\nevent: end\ndata: \"stop\"\n\n"},
		{"streamed lines", server.JSONLines, "+hi", 200, "\"one\"\n\" two\"\n\"stop\"\n"},
		{"late error", server.ServerSentEvents, "+fail", 200,
			"data: \"one\"\n\ndata: \" two\"\n\nevent: oops\ndata: \"toy: no memory\"\n\n"},
		{"too large", server.ServerSentEvents, strings.Repeat("x", 99), 413,
			`"toy: The request's body is too large: the limit is 50 bytes"` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(func(s *fakeStream) {
				s.token(1, "one")
				s.token(2, " two")
				if c.name == "late error" {
					s.done("error", errors.New("no memory"))
					return
				}
				s.done("stop", nil)
			})
			s := start(t, e, server.Options{MaxBodyBytes: 50,
				Dialects: append(dialects, toy{c.framing})})
			status, _, text := post(t, s.URL+"/toy", c.body)
			if status != c.status || text != c.want {
				t.Errorf("got %d %q, want %d %q", status, text, c.status, c.want)
			}
			_, _, text = do(t, http.MethodGet, s.URL+"/nowhere", "")
			if !strings.HasPrefix(text, `{"error":{"message":"There is nothing at GET /nowhere`) {
				t.Errorf("unknown address: %s", text)
			}
			_, _, metrics := do(t, http.MethodGet, s.URL+"/metrics", "")
			if !strings.Contains(metrics, `headroom_http_requests_total{route="/toy"`) {
				t.Error("the route has no label in /metrics")
			}
		})
	}
}

// TestPaths: the server names the paths of all dialects, without methods.
func TestPaths(t *testing.T) {
	s := server.New(server.Options{Models: &fakeModels{},
		Dialects: append(dialects, toy{server.JSONLines})})
	for _, path := range []string{"/toy", "/v1/", "/v1/chat/completions", "/health", "/metrics"} {
		if !slices.Contains(s.Paths(), path) {
			t.Errorf("%s is missing in %q", path, s.Paths())
		}
	}
}

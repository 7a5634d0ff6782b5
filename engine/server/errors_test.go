package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

func TestRefusals(t *testing.T) {
	const hi = `{"messages":[{"role":"user","content":"hi"}]}`
	busy := problem.New(problem.Busy, "Too many requests are waiting", "64 wait", "Try again.")
	busier := &problem.Problem{Code: problem.Busy, Message: "Too many requests are waiting",
		RetryAfter: 6001 * time.Millisecond}
	long := problem.TooLong(problem.Overflow{Tokens: 40013, Context: 32768}, "")
	cases := []struct {
		name         string
		method, path string
		body         string
		change       func(*fakeEngine, *fakeModels)
		status       int
		want         []string // in the body
		retryAfter   string
	}{
		{"not JSON", "POST", "/v1/chat/completions", `{"messages":[}`, nil, 400,
			[]string{"not valid JSON", "line 1, column 14", `"type":"invalid_request_error"`,
				`"code":null`, `"param":null`}, ""},
		{"bad parameter", "POST", "/v1/chat/completions", `{"messages":[],"n":300}`, nil, 400,
			[]string{`"param":"n"`, "between 1 and 128, got 300", `"code":null`}, ""},
		{"unsupported parameter", "POST", "/v1/chat/completions",
			`{"messages":[],"bad_words":["x"]}`, nil, 400,
			[]string{`"param":"bad_words"`, "is not supported",
				`"code":"unsupported_parameter"`}, ""},
		{"not UTF-8", "POST", "/v1/completions", "{\"prompt\":\"\xc3\"}", nil, 400,
			[]string{"not valid UTF-8: byte 0xc3"}, ""},
		{"empty", "POST", "/v1/completions", "", nil, 400, []string{"The body is empty"}, ""},
		{"too large", "POST", "/v1/completions", `{"prompt":"` + strings.Repeat("x", 1000) + `"}`,
			nil, 413, []string{"the limit is 900 bytes", `"code":"too_large"`}, ""},
		{"unknown model", "POST", "/v1/chat/completions",
			`{"model":"gpt-4","messages":[{"role":"user","content":"hi"}]}`, nil, 404,
			[]string{`"code":"model_not_found"`, "there is demo"}, ""},
		{"template refuses", "POST", "/v1/chat/completions",
			`{"messages":[{"role":"alien","content":"hi"}]}`, nil, 400,
			[]string{`"code":"template_failed"`, "Unknown role: alien"}, ""},
		{"template variables", "POST", "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"messages":[]}}`,
			nil, 400, []string{"chat_template_kwargs"}, ""},
		{"no template", "POST", "/v1/chat/completions", hi,
			func(e *fakeEngine, _ *fakeModels) { e.template = nil }, 400,
			[]string{`"code":"no_template"`, "/v1/completions"}, ""},
		{"too long", "POST", "/v1/chat/completions", hi,
			func(e *fakeEngine, _ *fakeModels) { e.refusal = long }, 400,
			[]string{`"code":"context_length_exceeded"`, `"message":"This model's maximum context ` +
				`length is 32768 tokens. However, your prompt has 40013 tokens. `}, ""},
		{"busy", "POST", "/v1/chat/completions", hi,
			func(e *fakeEngine, _ *fakeModels) { e.refusal = busy }, 429,
			[]string{`"type":"rate_limit_error"`, "64 wait"}, "1"},
		{"busy with a retry time", "POST", "/v1/chat/completions", hi,
			func(e *fakeEngine, _ *fakeModels) { e.refusal = busier }, 429,
			[]string{`"code":"busy"`}, "7"},
		{"loading", "POST", "/v1/chat/completions", hi,
			func(_ *fakeEngine, m *fakeModels) {
				m.err = problem.New(problem.Loading, "Loading", "", "")
			}, 503, []string{`"code":"loading"`}, "2"},
		{"not running", "POST", "/v1/completions", `{"prompt":"x"}`,
			func(_ *fakeEngine, m *fakeModels) {
				m.err = problem.New(problem.NotRunning, "No model is loaded", "", "")
			}, 503, []string{`"code":"not_running"`}, ""},
		{"any other error", "POST", "/v1/completions", `{"prompt":"x"}`,
			func(e *fakeEngine, _ *fakeModels) { e.refusal = errors.New("disk on fire") }, 500,
			[]string{`"code":"internal"`, "disk on fire"}, ""},
		{"unknown address", "GET", "/v1/audio/speech", "", nil, 404,
			[]string{`"code":"not_found"`, "GET /v1/audio/speech", "POST /v1/chat/completions"}, ""},
		{"wrong method", "GET", "/v1/chat/completions", "", nil, 405,
			[]string{"GET is not possible at /v1/chat/completions", "Send POST",
				`"code":"method_not_allowed"`}, ""},
		{"wrong method without /v1", "DELETE", "/models/", "", nil, 405,
			[]string{"Send GET"}, ""},
		{"unknown address without a model", "POST", "/nothing", `{"messages":[}`,
			func(_ *fakeEngine, m *fakeModels) {
				m.err = problem.New(problem.NotRunning, "No model is loaded", "", "")
			}, 404, []string{"There is nothing at POST /nothing", `"code":"not_found"`}, ""},
		{"unknown address without /v1", "POST", "/audio/speech", `{"input":"a"}`, nil, 404,
			[]string{"There is nothing at POST /audio/speech"}, ""},
		{"entry of an unknown model", "GET", "/v1/models/a/b", "", nil, 404,
			[]string{`"code":"model_not_found"`}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
			models := &fakeModels{engine: e}
			if c.change != nil {
				c.change(e, models)
			}
			status, header, text := do(t, c.method,
				start(t, e, server.Options{Models: models, MaxBodyBytes: 900}).URL+c.path, c.body)
			if status != c.status || header.Get("Retry-After") != c.retryAfter ||
				header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, retry after %q, type %q; want %d, %q", status,
					header.Get("Retry-After"), header.Get("Content-Type"), c.status, c.retryAfter)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the body lacks %q: %s", want, text)
				}
			}
		})
	}
}

func TestGuard(t *testing.T) {
	cases := []struct {
		name    string
		guard   guard.Guard
		headers []string
		status  int
	}{
		{"loopback", guard.Guard{}, nil, 200},
		{"localhost", guard.Guard{}, []string{"Host", "localhost:11811"}, 200},
		{"subdomain of localhost", guard.Guard{}, []string{"Host", "app.localhost"}, 200},
		{"IPv6", guard.Guard{}, []string{"Host", "[::1]:11811"}, 200},
		{"rebinding", guard.Guard{}, []string{"Host", "evil.com"}, 403},
		{"rebinding with a dot", guard.Guard{}, []string{"Host", "evil.com.:80"}, 403},
		{"domain that begins with localhost", guard.Guard{},
			[]string{"Host", "localhost.evil.com"}, 403},
		{"LAN address, listening on loopback", guard.Guard{}, []string{"Host", "192.168.1.2:11811"},
			403},
		{"allowed name", guard.Guard{AllowHosts: []string{"mac.example"}},
			[]string{"Host", "Mac.Example:80"}, 200},
		{"listening on one address", guard.Guard{Listen: "192.168.1.2", NoKey: true},
			[]string{"Host", "192.168.1.2:11811"}, 200},
		{"listening everywhere, by address", guard.Guard{Listen: "0.0.0.0", NoKey: true},
			[]string{"Host", "192.168.1.2:11811"}, 200},
		{"listening everywhere, by a foreign name", guard.Guard{Listen: "0.0.0.0", NoKey: true},
			[]string{"Host", "evil.com"}, 403},
		{"listening everywhere, own page", guard.Guard{Listen: "0.0.0.0", NoKey: true},
			[]string{"Host", "192.168.1.2:11811", "Origin", "http://192.168.1.2:11811"}, 200},
		{"listening everywhere, page of another address",
			guard.Guard{Listen: "0.0.0.0", NoKey: true},
			[]string{"Host", "192.168.1.2:11811", "Origin", "http://6.6.6.6"}, 403},
		{"listening everywhere, page of another IPv6 address",
			guard.Guard{Listen: "::", NoKey: true},
			[]string{"Host", "192.168.1.2:11811", "Origin", "http://[2001:db8::6]"}, 403},
		{"listening everywhere, page of an allowed address",
			guard.Guard{Listen: "0.0.0.0", NoKey: true, AllowHosts: []string{"192.168.1.9"}},
			[]string{"Host", "192.168.1.2:11811", "Origin", "http://192.168.1.9:3000"}, 200},
		{"listening everywhere, local page", guard.Guard{Listen: "0.0.0.0", NoKey: true},
			[]string{"Host", "192.168.1.2:11811", "Origin", "http://localhost:3000"}, 200},
		{"local page", guard.Guard{}, []string{"Origin", "http://localhost:3000"}, 200},
		{"page in the app's window", guard.Guard{}, []string{"Origin", "wails://wails"}, 200},
		{"foreign page", guard.Guard{}, []string{"Origin", "https://evil.com"}, 403},
		{"sandboxed page", guard.Guard{}, []string{"Origin", "null"}, 403},
		{"listening everywhere without a key", guard.Guard{Listen: "0.0.0.0"}, nil, 401},
		{"listening everywhere with the token of the web UI", guard.Guard{Listen: "0.0.0.0",
			Bypass: func(*http.Request) bool { return true }}, nil, 200},
		{"listening everywhere, a key, page of another address",
			guard.Guard{Listen: "0.0.0.0", APIKey: "k"}, []string{"Host", "192.168.1.2:11811",
				"Origin", "http://6.6.6.6", "Authorization", "Bearer k"}, 403},
		{"no key", guard.Guard{APIKey: "s3cret"}, nil, 401},
		{"wrong key", guard.Guard{APIKey: "s3cret"}, []string{"Authorization", "Bearer s3cre"},
			401},
		{"bearer", guard.Guard{APIKey: "s3cret"}, []string{"Authorization", "bearer s3cret"}, 200},
		{"x-api-key", guard.Guard{APIKey: "s3cret"}, []string{"X-Api-Key", "s3cret"}, 200},
		{"key with basic authentication", guard.Guard{APIKey: "s3cret"},
			[]string{"Authorization", "Basic s3cret"}, 401},
		{"Bypass returns true", guard.Guard{APIKey: "s3cret",
			Bypass: func(r *http.Request) bool { return r.Header.Get("X-T") == "t" }},
			[]string{"X-T", "t"}, 200},
		{"Bypass returns false", guard.Guard{APIKey: "s3cret",
			Bypass: func(r *http.Request) bool { return false }}, []string{"X-T", "t"}, 401},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, newFakeEngine(nil), server.Options{Guard: &c.guard})
			status, _, text := do(t, http.MethodGet, s.URL+"/v1/models", "", c.headers...)
			if status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, text)
			}
			if status, _, _ := do(t, http.MethodGet, s.URL+"/health", "",
				c.headers...); status == 401 {
				t.Error("/health requires a key")
			}
		})
	}
}

// TestCORS checks that a page that may use the endpoint can also read the answers, and can send
// headers that need a preflight request.
func TestCORS(t *testing.T) {
	s := start(t, newFakeEngine(nil), server.Options{Guard: &guard.Guard{APIKey: "k"}})
	status, header, _ := do(t, http.MethodOptions, s.URL+"/v1/chat/completions", "", "Origin",
		"http://localhost:3000", "Access-Control-Request-Headers", "authorization, content-type")
	if status != 204 || header.Get("Access-Control-Allow-Origin") != "http://localhost:3000" ||
		header.Get("Access-Control-Allow-Headers") != "authorization, content-type" {
		t.Errorf("preflight: got %d %v, expected 204 with the origin and the headers",
			status, header)
	}
	status, header, _ = do(t, http.MethodGet, s.URL+"/v1/models", "", "Origin",
		"http://localhost:3000", "X-Api-Key", "k")
	if status != 200 || header.Get("Access-Control-Allow-Origin") != "http://localhost:3000" {
		t.Errorf("answer: got %d %v, expected 200 with the origin", status, header)
	}
	if status, header, _ = do(t, http.MethodOptions, s.URL+"/v1/chat/completions", "", "Origin",
		"http://evil.com"); status != 403 || header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign preflight: got %d %v, expected 403 without an origin", status, header)
	}
}

// TestEmptyPrompt: an error about a plain prompt without tokens names the field, and the engine
// gets no request.
func TestEmptyPrompt(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.done("stop", nil) })
	s := start(t, e, server.Options{})
	for body, want := range map[string]string{
		`{"prompt":""}`:               `"prompt"`,
		`{"prompt":"","n":2}`:         `"prompt"`,
		`{"prompt":["a","",[5]]}`:     `"prompt[1]"`,
		`{"prompt":["","a"],"n":2}`:   `"prompt[0]"`,
		`{"prompt":"","stream":true}`: `"prompt"`,
	} {
		status, _, text := post(t, s.URL+"/v1/completions", body)
		if status != 400 || !strings.Contains(text, `"param":`+want) ||
			!strings.Contains(text, "has no tokens, expected at least one") {
			t.Errorf("%s: %d %s, want 400 with %s", body, status, text, want)
		}
	}
	if len(e.requests) > 0 {
		t.Errorf("the engine got %d requests", len(e.requests))
	}
}

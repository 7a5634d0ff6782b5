package server_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/server"
)

// TestBaseURLs checks the paths that clients make of base URLs with and without /v1, and with
// slashes at the end.
func TestBaseURLs(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.say("a"); s.done(engine.FinishStop, nil) })
	s := start(t, e, server.Options{})
	const chat, text = `{"messages":[{"role":"user","content":"hi"}]}`, `{"prompt":"hi"}`
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/chat/completions", chat, `"chat.completion"`},
		{"POST", "/chat/completions", chat, `"chat.completion"`},
		{"POST", "/v1/chat/completions/", chat, `"chat.completion"`},
		{"POST", "/chat/completions//", chat, `"chat.completion"`},
		{"POST", "//v1/chat/completions", chat, `"chat.completion"`},
		{"POST", "/v1//chat/completions", chat, `"chat.completion"`},
		{"POST", "/completions", text, `"text_completion"`},
		{"POST", "/completions/", text, `"text_completion"`},
		{"GET", "/models", "", `"id":"demo"`},
		{"GET", "/v1/models/", "", `"id":"demo"`},
		{"GET", "/models/demo", "", `"id":"demo"`},
		{"GET", "/health/", "", `"status":"ok"`},
	} {
		if status, _, got := do(t, c.method, s.URL+c.path, c.body); status != 200 ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, got)
		}
	}
}

// TestAllow checks the methods that an answer with status 405 names.
func TestAllow(t *testing.T) {
	s := start(t, newFakeEngine(nil), server.Options{})
	for path, want := range map[string]string{"/v1/chat/completions": "POST",
		"/chat/completions": "POST", "/tokenize": "POST", "/v1/models": "GET",
		"/health": "GET", "/openapi.json": "GET"} {
		status, header, text := do(t, http.MethodPut, s.URL+path, "")
		if status != 405 || header.Get("Allow") != want || !json.Valid([]byte(text)) {
			t.Errorf("PUT %s: %d, Allow %q: %s", path, status, header.Get("Allow"), text)
		}
	}
}

// TestRequestIDs checks that each answer has the ID of its request, under the names of two APIs,
// and that the log has it, too.
func TestRequestIDs(t *testing.T) {
	var log bytes.Buffer
	e := newFakeEngine(func(s *fakeStream) { s.say("a"); s.done(engine.FinishStop, nil) })
	s := start(t, e, server.Options{Log: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	form := regexp.MustCompile("^req_[0-9a-f]{24}$")
	seen := map[string]bool{}
	for _, c := range []struct{ method, path, body, client string }{
		{"POST", "/v1/chat/completions", hiStreamed, "mine-1"},
		{"POST", "/v1/chat/completions", "{", "mine 2"},
		{"POST", "/v1/completions", `{"prompt":"a"}`, strings.Repeat("x", 129)},
		{"GET", "/v1/models", "", ""},
		{"GET", "/health", "", ""},
		{"GET", "/nothing", "", ""},
	} {
		log.Reset()
		_, header, _ := do(t, c.method, s.URL+c.path, c.body, "X-Client-Request-Id", c.client)
		id := header.Get("X-Request-Id")
		if !form.MatchString(id) || seen[id] || header.Get("Request-Id") != id {
			t.Errorf("%s: the IDs are %q and %q", c.path, id, header.Get("Request-Id"))
		}
		seen[id] = true
		logged := c.client == "mine-1"
		if line := log.String(); !strings.Contains(line, "request="+id) ||
			strings.Contains(line, "client_request=") != logged {
			t.Errorf("%s: the log has %s", c.path, line)
		}
	}
}

// TestFingerprint checks that system_fingerprint depends on the program and the model alone.
func TestFingerprint(t *testing.T) {
	form := regexp.MustCompile(`"system_fingerprint":"(fp_[0-9a-f]{10})"`)
	of := func(version, kv string) string {
		e := newFakeEngine(func(s *fakeStream) { s.say("a"); s.done(engine.FinishStop, nil) })
		e.info.KVFormat = kv
		s := start(t, e, server.Options{Version: version})
		found := map[string]bool{}
		for _, body := range []string{`{"messages":[{"role":"user","content":"hi"}]}`, hiStreamed} {
			_, _, text := post(t, s.URL+"/v1/chat/completions", body)
			for _, m := range form.FindAllStringSubmatch(text, -1) {
				found[m[1]] = true
			}
		}
		if len(found) != 1 {
			t.Fatalf("%d fingerprints", len(found))
		}
		for print := range found {
			return print
		}
		return ""
	}
	if of("1", "f16") != of("1", "f16") || of("1", "f16") == of("2", "f16") ||
		of("1", "f16") == of("1", "q8_0") {
		t.Error("the fingerprint does not follow the version and the formats")
	}
}

// TestByteOrderMark checks that a body may begin with one.
func TestByteOrderMark(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.say("a"); s.done(engine.FinishStop, nil) })
	s := start(t, e, server.Options{})
	for path, body := range map[string]string{"/v1/completions": `{"prompt":"hi"}`,
		"/tokenize": `{"content":"hi"}`} {
		if status, _, text := post(t, s.URL+path, "\uFEFF"+body); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _, _ := post(t, s.URL+"/v1/completions", "\uFEFF\uFEFF{}"); status != 400 {
		t.Errorf("two of them: %d", status)
	}
}

// TestTokenize checks the routes for tokens and prompts, with the fields of llama-server and vLLM.
func TestTokenize(t *testing.T) {
	e := newFakeEngine(nil)
	e.info.ContextTokens = 4096
	s := start(t, e, server.Options{})
	ask := func(path, body string) map[string]any {
		t.Helper()
		status, _, text := post(t, s.URL+path, body)
		var answer map[string]any
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 {
			t.Fatalf("%s %s: %d %s", path, body, status, text)
		}
		return answer
	}
	list := func(v any) (ids []int32) {
		for _, n := range v.([]any) {
			ids = append(ids, int32(n.(float64)))
		}
		return ids
	}
	encoded := func(ids any) string { return e.tokenizer.Decode(list(ids), false) }

	got := ask("/tokenize", `{"content":"a <|im_end|> é"}`)
	if ids := list(got["tokens"]); encoded(got["tokens"]) != "a <|im_end|> é" ||
		got["count"].(float64) != float64(len(ids)) || got["max_model_len"].(float64) != 4096 {
		t.Errorf("content: %v", got)
	}
	special, _ := e.tokenizer.TokenID("<|im_end|>")
	has := func(ids []int32) bool {
		for _, id := range ids {
			if id == special {
				return true
			}
		}
		return false
	}
	plain := ask("/v1/tokenize", `{"content":"a <|im_end|>","parse_special":false}`)
	if !has(list(got["tokens"])) || has(list(plain["tokens"])) ||
		encoded(plain["tokens"]) != "a <|im_end|>" {
		t.Errorf("special tokens: %v, as text %v", got, plain)
	}
	if empty := ask("/tokenize", `{"content":""}`); len(empty["tokens"].([]any)) != 0 {
		t.Errorf("an empty text: %v", empty)
	}
	joined := ""
	pieces := ask("/tokenize", `{"content":"aé😀","with_pieces":true}`)["tokens"]
	for _, piece := range pieces.([]any) {
		switch p := piece.(map[string]any)["piece"].(type) {
		case string:
			joined += p
		case []any:
			for _, b := range p {
				joined += string([]byte{byte(b.(float64))})
			}
		}
	}
	if joined != "aé😀" {
		t.Errorf("the pieces are %q", joined)
	}
	got = ask("/tokenize", `{"prompt":"a b","return_token_strs":true}`)
	if texts := got["token_strs"].([]any); len(texts) != len(list(got["tokens"])) {
		t.Errorf("prompt: %v", got)
	}

	const conversation = `"messages":[{"role":"system","content":"S"},` +
		`{"role":"user","content":"hi"}],"chat_template_kwargs":{"enable_thinking":false}`
	prompt := ask("/apply-template", "{"+conversation+"}")["prompt"].(string)
	if !strings.HasSuffix(prompt, "hi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n") {
		t.Errorf("the prompt is %q", prompt)
	}
	chat := ask("/tokenize", "{"+conversation+"}")
	if encoded(chat["tokens"]) != prompt {
		t.Errorf("the tokens of the conversation are %q", encoded(chat["tokens"]))
	}
	ids, _ := json.Marshal(chat["tokens"])
	if back := ask("/detokenize", `{"tokens":`+string(ids)+`}`); back["content"] != prompt ||
		back["prompt"] != prompt {
		t.Errorf("the text of the tokens is %v", back)
	}
	for path, bodies := range map[string][]string{
		"/tokenize":       {`{}`, `{"content":7}`, `{"content":"a","model":"gpt"}`, `{"messages":[]}`},
		"/detokenize":     {`{}`, `{"tokens":"a"}`, `{"tokens":[-1]}`, `{"tokens":[9999999]}`},
		"/apply-template": {`{}`, `{"messages":[{"role":"alien","content":"a"}]}`},
	} {
		for _, body := range bodies {
			if status, _, text := post(t, s.URL+path, body); status != 400 && status != 404 ||
				!strings.Contains(text, `"error"`) {
				t.Errorf("%s %s: %d %s", path, body, status, text)
			}
		}
	}
}

// TestTokenizeLogsNothing checks that the log has nothing of a body.
func TestTokenizeLogsNothing(t *testing.T) {
	var log bytes.Buffer
	s := start(t, newFakeEngine(nil), server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	post(t, s.URL+"/tokenize", `{"content":"secret"}`)
	post(t, s.URL+"/tokenize", `{"secret":1,"secret":2}`) // the error names the key
	if strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "/tokenize") {
		t.Errorf("the log is %s", log.String())
	}
}

// TestUnknownAddresses: an unknown address has the error of the dialect whose routes are nearest.
func TestUnknownAddresses(t *testing.T) {
	s := start(t, newFakeEngine(nil), server.Options{})
	const anthropics, openais, ollamas = `{"type":"error","error":{"type":"not_found_error"`,
		`{"error":{"message"`, `{"error":"There is nothing`
	for path, want := range map[string]string{
		"/v1/messages/batches":   anthropics,
		"/v1/messages/a/b":       anthropics,
		"/messages/batches":      anthropics,
		"/v1/chat/none":          openais,
		"/v1/responses/a/b":      openais,
		"/v1/none":               openais,
		"/none":                  openais,
		"/api/none":              ollamas,
		"/v1/messages-none/some": openais,
	} {
		status, _, text := do(t, http.MethodGet, s.URL+path, "")
		if status != 404 || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

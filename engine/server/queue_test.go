package server_test

import (
	"io/fs"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/server"
	"headroom/engine/tokenizer"
)

// TestFullQueue uses the real engine with room for one running and one waiting request. The next
// request must be refused with a Retry-After header, and must succeed later. The error for a prompt
// longer than the context must state both lengths.
func TestFullQueue(t *testing.T) {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Source{FS: files},
		engine.Options{ContextTokens: 4096, MaxSequences: 1, QueueRequests: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := httptest.NewServer(server.New(server.Options{Models: &fakeModels{engine: e},
		Dialects: dialects}))
	defer s.Close()
	ask := func() (status int, after, text string) {
		status, header, text := post(t, s.URL+"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"What is 76 - 27?"}],"max_tokens":20}`)
		return status, header.Get("Retry-After"), text
	}
	if status, _, text := ask(); status != 200 {
		t.Fatalf("%d: %s", status, text)
	}

	prompt := e.Tokenizer().Encode(strings.Repeat("Answer briefly. ", 10),
		tokenizer.EncodeOptions{})
	running := hold(t, e, prompt)
	if first, err := running.Next(t.Context()); err != nil || first.Type != engine.Prefill {
		t.Fatalf("first event %+v (%v), expected Prefill", first, err)
	}
	for e.Stats().Running == 0 {
		if _, err := running.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	waiting := hold(t, e, prompt)
	status, after, text := ask()
	seconds, err := strconv.Atoi(after)
	if status != 429 || err != nil || seconds < 1 || seconds > 600 {
		t.Errorf("%d, Retry-After %q, expected 429 and 1 to 600 seconds: %s", status, after, text)
	}
	if want := regexp.MustCompile(
		`Too many requests are waiting: 1 are waiting, the limit is 1\. Try again in about ` +
			after +
			` s\.`); !want.MatchString(text) {
		t.Errorf("%s, expected %s", text, want)
	}
	for _, stream := range []*engine.Stream{running, waiting} {
		stream.Cancel()
		for ev := (engine.Event{}); ev.Type != engine.Done; {
			if ev, err = stream.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if status, _, text := ask(); status != 200 {
		t.Errorf("after the queue is empty again: %d, %s", status, text)
	}

	status, header, text := post(t, s.URL+"/v1/completions",
		`{"prompt":"`+strings.Repeat("word ", 5000)+`"}`)
	if status != 400 || header.Get("Retry-After") != "" ||
		!strings.Contains(text, `"code":"context_length_exceeded"`) ||
		!regexp.MustCompile(`length is 4096 tokens\. However, your prompt has (more than )?\d+ tok`).
			MatchString(text) {
		t.Errorf("%d, Retry-After %q, expected 400 without Retry-After, and both lengths: %s",
			status, header.Get("Retry-After"), text)
	}
}

// hold submits a request that runs until it is cancelled.
func hold(t *testing.T, e *engine.Engine, prompt []int32) *engine.Stream {
	t.Helper()
	stream, err := e.Submit(engine.Request{Prompt: prompt, IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}
